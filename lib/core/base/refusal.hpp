// An error that the user can correct. It says what is wrong and what to do; the bindings turn it into a NetreproError.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

struct Refusal : std::runtime_error {
  Refusal(const std::string& problem, std::string what_to_do)
      : std::runtime_error(problem), remedy(std::move(what_to_do)) {}
  std::string remedy;
};
