// What WebAssembly offers to JavaScript (netrepro-web.js): a described run, and its columns as pointers into memory.
// After an error the functions return 0 or -1, and netrepro_problem says what it was.
#include <emscripten/emscripten.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/refusal.hpp"
#include "web/described_run.hpp"

namespace {

std::string problem;

struct Open {
  DescribedRun run;
  std::vector<DescribedRun::Column> columns;
};

template <class Result, class Call>
Result or_problem(Result failed, Call&& call) {
  try {
    return call();
  } catch (const Refusal& refusal) {
    problem = std::string(refusal.what()) + ": " + refusal.remedy;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return failed;
}

}  // namespace

extern "C" {

EMSCRIPTEN_KEEPALIVE const char* netrepro_problem() { return problem.c_str(); }

EMSCRIPTEN_KEEPALIVE Open* netrepro_open(const char* text) {
  return or_problem<Open*>(nullptr, [&] { return new Open{DescribedRun(text), {}}; });
}
EMSCRIPTEN_KEEPALIVE void netrepro_close(Open* open) { delete open; }

// Returns 1 at the end, else 0.
EMSCRIPTEN_KEEPALIVE int netrepro_run(Open* open, double events) {
  return or_problem(-1, [&] { return open->run.run(static_cast<std::uint64_t>(events)) ? 1 : 0; });
}
EMSCRIPTEN_KEEPALIVE double netrepro_share(const Open* open) { return open->run.share(); }
EMSCRIPTEN_KEEPALIVE double netrepro_events(const Open* open) { return static_cast<double>(open->run.events()); }

// Returns how many columns there are now.
EMSCRIPTEN_KEEPALIVE int netrepro_columns(Open* open) {
  return or_problem(-1, [&] {
    open->columns = open->run.columns();
    return static_cast<int>(open->columns.size());
  });
}
EMSCRIPTEN_KEEPALIVE const char* netrepro_name(const Open* open, int column) {
  return open->columns[column].first.c_str();
}
EMSCRIPTEN_KEEPALIVE const double* netrepro_values(const Open* open, int column) {
  return open->columns[column].second.data();
}
EMSCRIPTEN_KEEPALIVE int netrepro_size(const Open* open, int column) {
  return static_cast<int>(open->columns[column].second.size());
}
}
