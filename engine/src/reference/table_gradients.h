// The gradients of all tables that a call has, in memory of their own.
#ifndef HEED_REFERENCE_TABLE_GRADIENTS_H_
#define HEED_REFERENCE_TABLE_GRADIENTS_H_

#include <variant>
#include <vector>

#include "heed/attention.h"
#include "reference/schemes.h"
#include "reference/trial_arrays.h"

namespace heed::reference {

template <class A>
struct TableGradients {
  struct Table {
    const char* name;
    Numbers<A> numbers;
  };
  std::vector<Table> tables;
  BiasGradients<A> views;

  explicit TableGradients(const Attention& attention) {
    ForEachScheme([&]<class Scheme>() {
      Scheme::ForEachTable(attention, views, [&](const char* name, const auto& table, auto& gradient) {
        tables.push_back({name, {}});
        gradient = std::visit([&](const auto& t) { return tables.back().numbers.Make(t.extent); }, table);
      });
    });
  }
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_TABLE_GRADIENTS_H_
