// hwloc's bitmaps as sets of ours.
#pragma once

#include <hwloc.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

struct DestroyBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, DestroyBitmap>;

/// Returns the ids in a bitmap; none if it is null or infinite.
template <class Id>
IdSet<Id> ids_of(hwloc_const_bitmap_t bitmap) {
  std::vector<Id> ids;
  if (bitmap == nullptr || hwloc_bitmap_weight(bitmap) < 0) return {};
  for (int id = hwloc_bitmap_first(bitmap); id >= 0; id = hwloc_bitmap_next(bitmap, id))
    ids.push_back(Id{id});
  return IdSet<Id>(std::move(ids));
}

}  // namespace zf
