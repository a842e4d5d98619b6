// The bytes of host memory that one rank needs, as rows of data. docs/memory.md shows every row, with where
// it was read and whether it was measured; a test compares the page with the rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fit/fit_job.hpp"
#include "fit/memory_item.hpp"

namespace zf {

/// The moments at which a rank may need most, in order. The last three are none: they are sums of their own.
enum class Moment {
  whole,    ///< start: the model is made
  cut,      ///< start: it is flattened, or cut into shards
  init,     ///< start: ZeRO-3 makes the optimizer's first state
  convert,  ///< start: what was made is copied to where it stays
  made,     ///< start: all is there
  save,     ///< a checkpoint
  step,     ///< steady training; also the highest moment of some resumes
  reduce,   ///< the same, while a bucket of gradients is reduced
  read,     ///< resume: the model is read
  load,     ///< resume: the optimizer's state is read
  once,     ///< at a checkpoint, of the rank that saves the model alone
  pinned,   ///< page-locked bytes
  shared,   ///< bytes in /dev/shm
};

inline constexpr std::array<const char*, 13> kMomentNames{"whole", "cut",    "init",   "convert", "made",
                                                          "save",  "step",   "reduce", "read",    "load",
                                                          "once",  "pinned", "shared"};

/// What a job must have for a row to count.
struct Condition {
  const char* name;
  bool (*holds)(const FitJob&);
};

/// A coefficient in bytes and a quantity: "2mT" is 2 moments of each trained parameter. docs/memory.md says
/// what the letters are; another one does not compile.
struct Term {
  const char* text;
  unsigned number = 0;
  char unit = '1';  ///< d, w, m, c, e; 1: a byte
  char quantity;    ///< another letter

  consteval Term(const char* term) : text(term) {  // implicit, so that rows read as a table
    for (; *term >= '0' && *term <= '9'; ++term) number = 10 * number + static_cast<unsigned>(*term - '0');
    if (number == 0) number = 1;
    if (is_one_of(*term, "dwmce")) unit = *term++;
    if (!is_one_of(*term, "PpTtFfSsLKGHARVXB") || term[1] != '\0') throw "no such quantity";
    quantity = *term;
  }

 private:
  static consteval bool is_one_of(char letter, const char* letters) {
    while (*letters != '\0' && *letters != letter) ++letters;
    return letter != '\0' && *letters == letter;
  }
};

struct FormulaRow {
  FitItem item;
  Term bytes;
  Moment first;                               ///< the row counts at this moment
  Moment last;                                ///< and at all up to this one
  std::array<const Condition*, 3> when = {};  ///< all that are not null
};

/// The rows of some ways to step.
struct Formulas {
  const char* name;  ///< "ZeRO 1 and 2"
  std::span<const FormulaRow> rows;
  bool (*apply)(const FitJob&);
};

/// Returns all formulas, in the order of the page. Pure.
std::span<const Formulas> all_formulas();

/// Returns the rows that count for a job. Precondition: there is such a job (why_no_such_job()). Pure.
std::vector<FormulaRow> formulas_of(const FitJob& job);

/// Returns the bytes that a term stands for. Pure.
std::uint64_t bytes_of(const Term& term, const FitJob& job);

}  // namespace zf
