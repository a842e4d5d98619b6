// What is odd about a node, in words, against the class that it should be of. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "survey/node_class.hpp"

namespace zf {

/// A node that is not as its class, or is of none.
struct OddNode {
  std::string name;
  std::string as;                ///< the fingerprint of the class that it is most like
  std::vector<std::string> but;  ///< clauses: "CPU 31 is offline"
};

/// Names what is compared.
struct NodeComparison {
  bool gpus = true;  ///< false: a node may be of any class of its machine, wherever that has its GPUs
  bool fast = true;  ///< false: bandwidth above that of the class is not odd
};

/// Compares a node with its class, or with the one that it is most like if it belongs to none. Returns
/// nothing if nothing is odd. Precondition: there is a class.
std::optional<OddNode> odd_node(const NodeRecord& record, const std::vector<NodeClass>& classes,
                                const NodeComparison& what = {});

/// Returns whether a class has this node's CPU model. Without one, a node is of a kind that was not surveyed.
bool is_kind_known(const NodeRecord& record, const std::vector<NodeClass>& classes);

/// Returns "as 94ab4283, but CPU 31 is offline and SMT is off".
std::string in_words(const OddNode& odd);

/// Returns the first 8 digits of a fingerprint, for people.
std::string short_name(const std::string& fingerprint);

}  // namespace zf
