// An error that a person can mend: what is wrong and what to do, which the bindings make a NetreproError of.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

struct Refusal : std::runtime_error {
  Refusal(const std::string& problem, std::string what_to_do)
      : std::runtime_error(problem), remedy(std::move(what_to_do)) {}
  std::string remedy;
};
