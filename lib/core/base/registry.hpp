// Lists of { name, make }, by which parts of one kind are asked for: find by name, and all names.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

// `kind` says in the error what has no such name.
template <class Registry>
auto made_by_name(const Registry& registry, const std::string& name, const char* kind) {
  for (const auto& entry : registry)
    if (name == entry.name) return entry.make;
  throw std::invalid_argument(std::string("no ") + kind + " " + name);
}

template <class Registry>
std::vector<std::string> names_in(const Registry& registry) {
  std::vector<std::string> names;
  for (const auto& entry : registry) names.emplace_back(entry.name);
  return names;
}
