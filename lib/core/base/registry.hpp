// A registry lists { name, make } for all parts of one kind. Here are the search by name and the list of names.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

// `kind` is the word for such a part in the error message.
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
