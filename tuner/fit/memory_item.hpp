// What host memory is for, and the phases of a job.
#pragma once

#include <array>
#include <cstddef>

#include "base/enum_names.hpp"

namespace zf {

enum class FitPhase { start, steady, checkpoint, resume };

template <>
inline constexpr auto kEnumNames<FitPhase> =
    std::to_array<EnumName<FitPhase>>({{FitPhase::start, "start"},
                                       {FitPhase::steady, "steady"},
                                       {FitPhase::checkpoint, "checkpoint"},
                                       {FitPhase::resume, "resume"}});

inline constexpr std::size_t kFitPhases = kEnumNames<FitPhase>.size();

/// What memory is for, in the order of the table.
enum class FitItem {
  model,
  gradients,
  masters,
  moments,
  optimizer_gradients,
  copies,
  second_buffers,
  loaded,
  conversion,
  staging,
  pinning,
  process,
};

template <>
inline constexpr auto kEnumNames<FitItem> =
    std::to_array<EnumName<FitItem>>({{FitItem::model, "model"},
                                      {FitItem::gradients, "gradients"},
                                      {FitItem::masters, "masters"},
                                      {FitItem::moments, "moments"},
                                      {FitItem::optimizer_gradients, "optimizer's gradients"},
                                      {FitItem::copies, "16-bit copy"},
                                      {FitItem::second_buffers, "second buffers"},
                                      {FitItem::loaded, "checkpoint in memory"},
                                      {FitItem::conversion, "conversion"},
                                      {FitItem::staging, "buckets, temporaries"},
                                      {FitItem::pinning, "rounding of pinned memory"},
                                      {FitItem::process, "reserve: process, loaders, CUDA"}});

}  // namespace zf
