#include "verification/boolean_circuit.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "base/random_stream.hpp"

namespace {

constexpr BooleanCircuit::Literal end_of_clause = -1;

constexpr std::size_t node_of(BooleanCircuit::Literal literal) { return static_cast<std::size_t>(literal >> 1); }

std::size_t hash_of(const auto& node) {
  std::uint64_t hash = static_cast<std::uint64_t>(node.kind);
  for (const BooleanCircuit::Literal literal : {node.a, node.b, node.c}) {
    hash = (hash ^ static_cast<std::uint32_t>(literal)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace

BooleanCircuit::BooleanCircuit() : table_(1024, never) {
  nodes_.push_back({Kind::constant, 0, 0, 0});
  variables_.push_back(0);
}

BooleanCircuit::Literal BooleanCircuit::input() {
  nodes_.push_back({Kind::input, 0, 0, 0});
  variables_.push_back(0);
  return static_cast<Literal>(2 * (nodes_.size() - 1));
}

BooleanCircuit::Literal BooleanCircuit::find_or_add(const Node& node) {
  std::size_t place = hash_of(node) & (table_.size() - 1);
  for (; table_[place] != never; place = (place + 1) & (table_.size() - 1))
    if (nodes_[node_of(table_[place])] == node) return table_[place];
  const auto literal = static_cast<Literal>(2 * nodes_.size());
  nodes_.push_back(node);
  variables_.push_back(0);
  table_[place] = literal;
  if (2 * ++in_table_ > table_.size()) enlarge_table();
  return literal;
}

void BooleanCircuit::enlarge_table() {
  Literals larger(4 * table_.size(), never);
  for (const Literal literal : table_) {
    if (literal == never) continue;
    std::size_t place = hash_of(nodes_[node_of(literal)]) & (larger.size() - 1);
    while (larger[place] != never) place = (place + 1) & (larger.size() - 1);
    larger[place] = literal;
  }
  table_.swap(larger);
}

BooleanCircuit::Literal BooleanCircuit::both(Literal a, Literal b) {
  if (a > b) std::swap(a, b);
  if (a == never || a == opposite(b)) return never;
  if (a == always || a == b) return b;
  // One level of absorption: x & (x & y) is x & y, and x & !(x & y) is x & !y.
  for (const auto& [x, other] : {std::pair{a, b}, std::pair{b, a}}) {
    const Node node = nodes_[node_of(other)];
    if (node.kind != Kind::both) continue;
    if ((other & 1) == 0) {
      if (x == node.a || x == node.b) return other;
      if (x == opposite(node.a) || x == opposite(node.b)) return never;
    } else {
      if (x == node.a) return both(x, opposite(node.b));
      if (x == node.b) return both(x, opposite(node.a));
      if (x == opposite(node.a) || x == opposite(node.b)) return x;
    }
  }
  return find_or_add({Kind::both, a, b, 0});
}

BooleanCircuit::Literal BooleanCircuit::differ(Literal a, Literal b) {
  const Literal sign = (a ^ b) & 1;
  a &= ~1;
  b &= ~1;
  if (a > b) std::swap(a, b);
  if (a == b) return sign;
  if (a == never) return b ^ sign;
  return find_or_add({Kind::differ, a, b, 0}) ^ sign;
}

BooleanCircuit::Literal BooleanCircuit::choose(Literal condition, Literal a, Literal b) {
  if (condition == always || a == b) return a;
  if (condition == never) return b;
  if (condition & 1) {
    condition = opposite(condition);
    std::swap(a, b);
  }
  if (a == opposite(b)) return differ(condition, b);
  if (a == always || a == condition) return either(condition, b);
  if (a == never || a == opposite(condition)) return both(opposite(condition), b);
  if (b == always || b == opposite(condition)) return either(opposite(condition), a);
  if (b == never || b == condition) return both(condition, a);
  // Where b excludes the condition, an OR is enough: it has fewer clauses than a multiplexer, and they propagate more.
  if (has_conjunct(condition, opposite(b))) return either(b, both(condition, a));
  const Literal sign = a & 1;
  return find_or_add({Kind::choose, condition, a ^ sign, b ^ sign}) ^ sign;
}

// Whether an AND has this conjunct, as far as a search a few gates deep shows.
bool BooleanCircuit::has_conjunct(Literal gate, Literal conjunct, std::size_t depth) const {
  if (gate == conjunct) return true;
  const Node& node = nodes_[node_of(gate)];
  if ((gate & 1) != 0 || node.kind != Kind::both || depth == 0) return false;
  return has_conjunct(node.a, conjunct, depth - 1) || has_conjunct(node.b, conjunct, depth - 1);
}

BooleanCircuit::Literal BooleanCircuit::all_of(const Literals& literals) {
  Literals sorted(literals);
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  Literal result = always;
  for (const Literal literal : sorted) result = both(result, literal);
  return result;
}

BooleanCircuit::Literal BooleanCircuit::any_of(const Literals& literals) {
  Literals negated(literals.size());
  std::transform(literals.begin(), literals.end(), negated.begin(), opposite);
  return opposite(all_of(negated));
}

BooleanCircuit::Literals BooleanCircuit::add(const Literals& a, const Literals& b, std::size_t limit) {
  Literals sum(std::min(limit, a.size() + b.size()), never);
  for (std::size_t k = 0; k < sum.size(); ++k) {
    Literals ways;
    // sum > k  <=>  for some i + j = k + 1: a >= i and b >= j
    for (std::size_t i = 0; i <= std::min(k + 1, a.size()); ++i) {
      const std::size_t j = k + 1 - i;
      if (j > b.size()) continue;
      ways.push_back(both(i == 0 ? always : a[i - 1], j == 0 ? always : b[j - 1]));
    }
    sum[k] = any_of(ways);
  }
  while (!sum.empty() && sum.back() == never) sum.pop_back();
  return sum;
}

BooleanCircuit::Literals BooleanCircuit::count(const Literals& literals, std::size_t limit) {
  if (literals.empty()) return {};
  if (literals.size() == 1) return literals[0] == never ? Literals{} : literals;
  const auto middle = literals.begin() + static_cast<std::ptrdiff_t>(literals.size() / 2);
  return add(count(Literals(literals.begin(), middle), limit), count(Literals(middle, literals.end()), limit), limit);
}

BooleanCircuit::Literals BooleanCircuit::choose_number(Literal condition, const Literals& a, const Literals& b) {
  Literals result(std::max(a.size(), b.size()));
  for (std::size_t k = 0; k < result.size(); ++k)
    result[k] = choose(condition, k < a.size() ? a[k] : never, k < b.size() ? b[k] : never);
  while (!result.empty() && result.back() == never) result.pop_back();
  return result;
}

// Literal k of the result says that the unary number is k.
BooleanCircuit::Literals BooleanCircuit::exactly(const Literals& number) {
  Literals found(number.size() + 1);
  for (std::size_t k = 0; k < found.size(); ++k)
    found[k] = both(k == 0 ? always : number[k - 1], k < number.size() ? opposite(number[k]) : always);
  return found;
}

BooleanCircuit::Rows BooleanCircuit::take_from(const Rows& rows, const Literals& taken) {
  const Literals is_taken = exactly(taken);
  Rows result;
  for (const Literals& row : rows) {
    const auto bit_at = [&](std::size_t position) { return position < row.size() ? row[position] : never; };
    Literals& shifted = result.emplace_back(row.size());
    for (std::size_t position = 0; position < row.size(); ++position) {
      if (taken.size() == 1) {  // one multiplexer instead of two gates
        shifted[position] = choose(taken[0], bit_at(position + 1), bit_at(position));
        continue;
      }
      Literals ways;
      for (std::size_t k = 0; k < is_taken.size(); ++k) ways.push_back(both(is_taken[k], bit_at(position + k)));
      shifted[position] = any_of(ways);
    }
    while (!shifted.empty() && shifted.back() == never) shifted.pop_back();
  }
  return result;
}

BooleanCircuit::Rows BooleanCircuit::put_behind(const Rows& rows, const Literals& held, const Rows& offers,
                                                std::size_t capacity) {
  const Literals is_held = exactly(held);
  Rows result;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Literals& grown = result.emplace_back(std::min(capacity, held.size() + offers[row].size()));
    for (std::size_t position = 0; position < grown.size(); ++position) {
      Literals ways;
      if (position < rows[row].size()) ways.push_back(rows[row][position]);
      for (std::size_t index = 0; index < std::min(position + 1, offers[row].size()); ++index)
        if (position - index < is_held.size()) ways.push_back(both(is_held[position - index], offers[row][index]));
      grown[position] = any_of(ways);
    }
    while (!grown.empty() && grown.back() == never) grown.pop_back();
  }
  return result;
}

BooleanCircuit::Matching BooleanCircuit::match_ports(const Pairs& pairs, const Literals& wanted,
                                                     const Literals& matched, const Rows& last) {
  const std::size_t ports = last.size() / 2;
  const auto port_of = [&](std::size_t pair, std::size_t side) {
    return side == 0 ? pairs[pair].first : pairs[pair].second;
  };
  // Whether a port whose last partner was k comes to a before it comes to b.
  const auto is_sooner = [&](std::size_t k, std::size_t a, std::size_t b) {
    return (a + 2 * ports - k - 1) % ports < (b + 2 * ports - k - 1) % ports;
  };
  Matching result;
  for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
    Literals needed{wanted[pair]};
    for (std::size_t rival = 0; rival < pairs.size(); ++rival)
      for (std::size_t side = 0; side < 2 && rival != pair; ++side) {
        const std::size_t port = port_of(pair, side);
        if (port_of(rival, side) != port) continue;
        Literals rival_is_sooner;
        for (std::size_t k = 0; k < ports; ++k)
          if (is_sooner(k, port_of(rival, 1 - side), port_of(pair, 1 - side)))
            rival_is_sooner.push_back(last[side * ports + port][k]);
        needed.push_back(either(opposite(matched[rival]), opposite(any_of(rival_is_sooner))));
      }
    result.demands.push_back(opposite(differ(matched[pair], all_of(needed))));
  }
  for (std::size_t side = 0; side < 2; ++side)
    for (std::size_t port = 0; port < ports; ++port) {
      Literals now(ports, never);
      for (std::size_t pair = 0; pair < pairs.size(); ++pair)
        if (port_of(pair, side) == port) now[port_of(pair, 1 - side)] = matched[pair];
      const Literal is_matched = any_of(now);
      Literals& next = result.last.emplace_back(ports);
      for (std::size_t k = 0; k < ports; ++k) next[k] = choose(is_matched, now[k], last[side * ports + port][k]);
    }
  return result;
}

BooleanCircuit::Literals BooleanCircuit::new_support(const Literals& roots) {
  supported_.resize(nodes_.size(), false);
  std::vector<std::size_t> open;
  Literals inputs;
  const auto visit = [&](Literal literal) {
    const std::size_t index = node_of(literal);
    if (!supported_[index]) {
      supported_[index] = true;
      open.push_back(index);
    }
  };
  for (const Literal root : roots) visit(root);
  while (!open.empty()) {
    const std::size_t index = open.back();
    open.pop_back();
    const Node& node = nodes_[index];
    if (node.kind == Kind::input) inputs.push_back(static_cast<Literal>(2 * index));
    if (node.kind == Kind::input || node.kind == Kind::constant) continue;
    visit(node.a);
    visit(node.b);
    if (node.kind == Kind::choose) visit(node.c);
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

// Whether an AND has no variable yet and one reader only. That gate's clauses can then name its conjuncts instead.
bool BooleanCircuit::is_private(std::size_t node, const std::vector<std::uint32_t>& readers) const {
  return nodes_[node].kind == Kind::both && readers[node] < 2 && variables_[node] == 0;
}

// Collects the conjuncts of a gate. An AND below an AND is replaced by its conjuncts when no other gate reads it, since
// one wide gate needs fewer variables and clauses than a chain of narrow ones.
void BooleanCircuit::gather(Literal literal, Literals& conjuncts, const std::vector<std::uint32_t>& readers,
                            std::size_t depth) const {
  const std::size_t index = node_of(literal);
  if (depth > 0 && ((literal & 1) != 0 || !is_private(index, readers) || depth > 4000)) {
    conjuncts.push_back(literal);
    return;
  }
  gather(nodes_[index].a, conjuncts, readers, depth + 1);
  gather(nodes_[index].b, conjuncts, readers, depth + 1);
}

BooleanCircuit::Literals BooleanCircuit::conjuncts(std::size_t node, const std::vector<std::uint32_t>& readers) const {
  Literals found;
  gather(static_cast<Literal>(2 * node), found, readers, 0);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Writes one half of an AND's clauses: literals, with `end_of_clause` after each clause. `gate` stands for its value,
// or is a constant where that is known. An AND whose opposite is a conjunct here, and which no other gate reads, needs
// no variable. In one half it gives a single clause, "the gate implies not both x and y". In the other half its
// conjuncts are spread over several clauses, where that is no longer than a variable's clauses would be.
void BooleanCircuit::write_both(std::size_t node, bool is_opposite, Literal gate,
                                const std::vector<std::uint32_t>& readers, Literals& clauses) const {
  const auto opened = [&](Literal literal) { return (literal & 1) != 0 && is_private(node_of(literal), readers); };
  const auto write = [&](Literal literal) {
    if (literal != never) clauses.push_back(literal);
  };
  const Literals below = conjuncts(node, readers);
  if (!is_opposite) {
    for (const Literal literal : below) {
      write(opposite(gate));
      if (opened(literal)) {
        for (const Literal inner : conjuncts(node_of(literal), readers)) write(opposite(inner));
      } else {
        write(literal);
      }
      clauses.push_back(end_of_clause);
    }
    return;
  }
  Literals spread;
  Literal spread_from = never;
  for (const Literal literal : below) {
    if (spread_from != never || !opened(literal)) continue;
    const Literals inner = conjuncts(node_of(literal), readers);
    if ((inner.size() - 1) * (below.size() + 1) > 2 * inner.size() + 1) continue;
    spread = inner;
    spread_from = literal;
  }
  if (spread_from == never) spread = {never};
  for (const Literal one : spread) {
    write(gate);
    write(one);
    for (const Literal literal : below)
      if (literal != spread_from) write(opposite(literal));
    clauses.push_back(end_of_clause);
  }
}

// Writes that a literal holds for good. A gate that no other gate reads needs no variable for this. If such a gate says
// that an AND equals another literal, the AND needs none either.
void BooleanCircuit::write_demand(Literal demand, const std::vector<std::uint32_t>& readers, Literals& clauses) const {
  const std::size_t index = node_of(demand);
  const Node& node = nodes_[index];
  const bool is_opposite = (demand & 1) != 0, is_own = readers[index] == 2 && variables_[index] == 0;
  if (is_own && node.kind == Kind::both) {
    write_both(index, is_opposite, is_opposite ? never : always, readers, clauses);
  } else if (is_own && node.kind == Kind::differ) {
    const bool is_first = is_private(node_of(node.a), readers);
    const Literal one = is_first ? node.a : node.b, other = (is_first ? node.b : node.a) ^ (is_opposite ? 0 : 1);
    if (is_private(node_of(one), readers)) {
      write_both(node_of(one), false, other, readers, clauses);
      write_both(node_of(one), true, other, readers, clauses);
    } else {
      clauses.insert(clauses.end(), {opposite(one), other, end_of_clause, one, opposite(other), end_of_clause});
    }
  } else {
    clauses.insert(clauses.end(), {demand, end_of_clause});
  }
}

void BooleanCircuit::write_half(std::size_t index, bool is_opposite, const std::vector<std::uint32_t>& readers,
                                Literals& clauses) const {
  const Node& node = nodes_[index];
  const Literal gate = static_cast<Literal>(2 * index);
  const Literal side = is_opposite ? 1 : 0, out = opposite(gate) ^ side;
  const auto clause = [&](std::initializer_list<Literal> literals) {
    clauses.insert(clauses.end(), literals);
    clauses.push_back(end_of_clause);
  };
  switch (node.kind) {
    case Kind::constant:
      if (!is_opposite) clause({out});
      break;
    case Kind::input:
      break;
    case Kind::both:
      write_both(index, is_opposite, gate, readers, clauses);
      break;
    case Kind::differ:
      clause({out, node.a, node.b ^ side});
      clause({out, opposite(node.a), opposite(node.b) ^ side});
      break;
    case Kind::choose:
      clause({out, opposite(node.a), node.b ^ side});
      clause({out, node.a, node.c ^ side});
      clause({out, node.b ^ side, node.c ^ side});  // redundant, but it propagates while the condition is open
      break;
  }
}

// How many gates read each gate, among gates that may still lack clauses. A root is read from outside, too.
std::vector<std::uint32_t> BooleanCircuit::count_readers(const Literals& roots, const Literals& demands) const {
  std::vector<std::uint32_t> readers(nodes_.size(), 0);
  std::vector<std::uint8_t> seen(given_);  // halves, as in `given_`
  std::vector<bool> has_counted(nodes_.size(), false);
  Literals open;
  const auto visit = [&](Literal literal, std::uint32_t count) {
    readers[node_of(literal)] += count;
    const std::uint8_t half = (literal & 1) ? 2 : 1;
    if (seen[node_of(literal)] & half) return;
    seen[node_of(literal)] |= half;
    open.push_back(literal);
  };
  for (const Literals& literals : {std::cref(roots), std::cref(demands)})
    for (const Literal root : literals) visit(root, 2);
  while (!open.empty()) {
    const Literal literal = open.back(), sign = literal & 1;
    open.pop_back();
    const std::size_t index = node_of(literal);
    const Node& node = nodes_[index];
    if (node.kind == Kind::input || node.kind == Kind::constant) continue;
    const std::uint32_t count = has_counted[index] ? 0 : 1;  // both halves are one reader's
    has_counted[index] = true;
    if (node.kind != Kind::both) visit(opposite(node.a), 0);
    if (node.kind == Kind::differ) visit(opposite(node.b), 0);
    visit(node.kind == Kind::both ? node.a ^ sign : node.a, count);
    visit(node.kind == Kind::differ ? node.b : node.b ^ sign, count);
    if (node.kind == Kind::choose) visit(node.c ^ sign, count);
  }
  return readers;
}

// Each gate's clauses come in two halves (Plaisted and Greenbaum, 1986): "the variable implies the gate" where the
// variable is asserted below some root, "the gate implies the variable" where its opposite is.
std::vector<std::int32_t> BooleanCircuit::new_clauses(const Literals& roots, const Literals& demands) {
  given_.resize(nodes_.size(), 0);
  const std::vector<std::uint32_t> readers = count_readers(roots, demands);

  struct Half {
    std::size_t node;
    bool is_opposite;
    std::size_t begin, end;  // its clauses in `written`
  };
  std::vector<Half> halves;
  std::vector<std::size_t> fresh;
  Literals written;
  // Asks for the half of the clauses by which `literal` implies what it stands for.
  const auto want = [&](Literal literal) {
    const std::size_t index = node_of(literal);
    const std::uint8_t half = (literal & 1) ? 2 : 1;
    if (given_[index] & half) return;
    given_[index] |= half;
    if (variables_[index] == 0) {
      variables_[index] = -1;
      fresh.push_back(index);
    }
    halves.push_back({index, half == 2, 0, 0});
  };
  const auto want_all = [&](std::size_t begin, std::size_t node) {
    for (std::size_t place = begin; place < written.size(); ++place)
      if (written[place] != end_of_clause && node_of(written[place]) != node) want(written[place]);
  };
  for (const Literal root : roots) want(root);
  for (const Literal demand : demands) write_demand(demand, readers, written);
  const std::size_t demanded = written.size();
  want_all(0, nodes_.size());
  for (std::size_t next = 0; next < halves.size(); ++next) {
    Half& half = halves[next];
    const std::size_t node = half.node, begin = written.size();
    write_half(node, half.is_opposite, readers, written);
    half.begin = begin;
    half.end = written.size();
    want_all(begin, node);
  }

  // Variables are numbered in the order in which gates were made, so that the solver meets causes before effects.
  std::sort(fresh.begin(), fresh.end());
  for (const std::size_t index : fresh) variables_[index] = ++variable_count_;
  std::sort(halves.begin(), halves.end(), [](const Half& a, const Half& b) {
    return std::pair{a.node, a.is_opposite} < std::pair{b.node, b.is_opposite};
  });
  std::vector<std::int32_t> clauses;
  clauses.reserve(written.size());
  const auto give_out = [&](std::size_t begin, std::size_t end) {
    for (std::size_t place = begin; place < end; ++place)
      clauses.push_back(written[place] == end_of_clause ? 0 : dimacs_variable(written[place]));
  };
  for (const Half& half : halves) give_out(half.begin, half.end);
  give_out(0, demanded);
  return clauses;
}

std::int32_t BooleanCircuit::dimacs_variable(Literal literal) const {
  const std::int32_t variable = variables_.at(node_of(literal));
  if (variable <= 0) throw std::logic_error("no clause has been given out for this literal");
  return (literal & 1) ? -variable : variable;
}

std::vector<std::int32_t> BooleanCircuit::dimacs_variables(const Literals& literals) const {
  std::vector<std::int32_t> found;
  found.reserve(literals.size());
  for (const Literal literal : literals)
    found.push_back(variables_.at(node_of(literal)) > 0 ? dimacs_variable(literal) : 0);
  return found;
}

// Fisher and Yates (1938), in Durstenfeld's form.
std::vector<std::int32_t> BooleanCircuit::shuffled(const std::vector<std::int32_t>& clauses, std::uint64_t seed) {
  std::vector<std::size_t> starts;
  for (std::size_t place = 0; place < clauses.size(); ++place)
    if (place == 0 || clauses[place - 1] == 0) starts.push_back(place);
  RandomStream stream(seed, 0);
  for (std::size_t left = starts.size(); left > 1; --left) std::swap(starts[left - 1], starts[stream.below(left)]);
  std::vector<std::int32_t> found;
  found.reserve(clauses.size());
  for (const std::size_t start : starts)
    for (std::size_t place = start; place < clauses.size(); ++place) {
      found.push_back(clauses[place]);
      if (clauses[place] == 0) break;
    }
  return found;
}

std::string BooleanCircuit::dimacs_text(const std::vector<std::int32_t>& clauses) {
  const auto clause_count = std::count(clauses.begin(), clauses.end(), 0);
  std::int32_t most = 0;
  for (const std::int32_t literal : clauses) most = std::max(most, std::abs(literal));
  std::string text = "p cnf " + std::to_string(most) + " " + std::to_string(clause_count) + "\n";
  text.reserve(text.size() + clauses.size() * 7);
  for (const std::int32_t literal : clauses) {
    text += std::to_string(literal);
    text += literal == 0 ? '\n' : ' ';
  }
  return text;
}

std::vector<bool> BooleanCircuit::evaluate(const Literals& true_inputs, const Literals& wanted) const {
  std::vector<bool> values(nodes_.size(), false);
  for (const Literal literal : true_inputs) values[node_of(literal)] = (literal & 1) == 0;
  const auto value = [&](Literal literal) { return values[node_of(literal)] != ((literal & 1) != 0); };
  // Nodes are made after the nodes they read, so one pass is enough.
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (node.kind == Kind::both) values[index] = value(node.a) && value(node.b);
    if (node.kind == Kind::differ) values[index] = value(node.a) != value(node.b);
    if (node.kind == Kind::choose) values[index] = value(node.a) ? value(node.b) : value(node.c);
  }
  std::vector<bool> result;
  result.reserve(wanted.size());
  for (const Literal literal : wanted) result.push_back(value(literal));
  return result;
}
