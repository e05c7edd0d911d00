#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// A Boolean circuit in which equal gates are one gate. A literal is twice the number of its node, plus one when
// negated: 0 is false, 1 is true. Constants and trivial gates are folded as they are built, so that what cannot
// happen (a queue position that no packet can have reached yet) costs nothing.
class BooleanCircuit {
 public:
  using Literal = std::int32_t;
  using Literals = std::vector<Literal>;
  static constexpr Literal never = 0;
  static constexpr Literal always = 1;

  BooleanCircuit();

  Literal input();
  Literal both(Literal a, Literal b);
  Literal either(Literal a, Literal b) { return opposite(both(opposite(a), opposite(b))); }
  Literal differ(Literal a, Literal b);
  Literal choose(Literal condition, Literal a, Literal b);
  Literal all_of(const Literals& literals);
  Literal any_of(const Literals& literals);
  static Literal opposite(Literal a) { return a ^ 1; }

  // Numbers in unary: literal k says "more than k". Sums longer than `limit` are cut there.
  Literals add(const Literals& a, const Literals& b, std::size_t limit);
  Literals count(const Literals& literals, std::size_t limit);
  Literals choose_number(Literal condition, const Literals& a, const Literals& b);

  // Queues. A row holds one bit of the packet at each position, front first; beyond its end it is zero. take_from gives
  // the rows once `taken` packets (in unary) have left. put_behind gives them once `offers` (by row, then by offer;
  // absent offers last) have come behind the `held` packets, up to `capacity` packets in all.
  using Rows = std::vector<Literals>;
  Rows take_from(const Rows& rows, const Literals& taken);
  Rows put_behind(const Rows& rows, const Literals& held, const Rows& offers, std::size_t capacity);

  // One step of a crossbar that serves its ports in turn. Pair {i, j} (input, output) is matched if and only if it is
  // wanted and neither port is matched with another one that it prefers. A port prefers the next one after its last
  // partner. Literal k of row i of `last` says that input i was last matched with output k; the rows of outputs follow.
  struct Matching {
    Literals demands;  // which say that the matching is of this kind
    Rows last;         // after this step
  };
  using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  Matching match_ports(const Pairs& pairs, const Literals& wanted, const Literals& matched, const Rows& last);

  // The inputs that these literals depend on, without those that an earlier call has returned.
  Literals new_support(const Literals& roots);

  // Clauses in DIMACS form (each ends with a zero) that give the `roots` their meaning, so that any of them can be
  // asserted, and that assert the `demands` for good. Clauses given out before are left out. A literal and its opposite
  // are two roots. dimacs_variable() gives the number of a literal whose gates have been given out.
  std::vector<std::int32_t> new_clauses(const Literals& roots, const Literals& demands);
  std::int32_t dimacs_variable(Literal literal) const;
  // The same for several literals; zero for a literal whose gates have not been given out.
  std::vector<std::int32_t> dimacs_variables(const Literals& literals) const;
  std::int32_t variable_count() const { return variable_count_; }
  // The same clauses as DIMACS text; and in an order drawn from the seed, where all orders are equally likely.
  static std::string dimacs_text(const std::vector<std::int32_t>& clauses);
  static std::vector<std::int32_t> shuffled(const std::vector<std::int32_t>& clauses, std::uint64_t seed);

  // The values of `wanted` when exactly the inputs in `true_inputs` hold.
  std::vector<bool> evaluate(const Literals& true_inputs, const Literals& wanted) const;

  std::size_t gate_count() const { return nodes_.size(); }

 private:
  enum class Kind : std::uint8_t { constant, input, both, differ, choose };
  struct Node {
    Kind kind;
    Literal a, b, c;
    bool operator==(const Node&) const = default;
  };

  Literal find_or_add(const Node& node);
  void enlarge_table();
  bool has_conjunct(Literal gate, Literal conjunct, std::size_t depth = 8) const;
  Literals exactly(const Literals& number);
  std::vector<std::uint32_t> count_readers(const Literals& roots, const Literals& demands) const;
  bool is_private(std::size_t node, const std::vector<std::uint32_t>& readers) const;
  void gather(Literal literal, Literals& conjuncts, const std::vector<std::uint32_t>& readers, std::size_t depth) const;
  Literals conjuncts(std::size_t node, const std::vector<std::uint32_t>& readers) const;
  void write_both(std::size_t node, bool is_opposite, Literal gate, const std::vector<std::uint32_t>& readers,
                  Literals& clauses) const;
  void write_demand(Literal demand, const std::vector<std::uint32_t>& readers, Literals& clauses) const;
  void write_half(std::size_t node, bool is_opposite, const std::vector<std::uint32_t>& readers,
                  Literals& clauses) const;

  std::vector<Node> nodes_;
  Literals table_;  // of gates, by hash with open addressing; never: a free place
  std::size_t in_table_ = 0;
  std::vector<std::int32_t> variables_;  // by node; 0: no clause given out yet
  std::vector<std::uint8_t> given_;      // by node: the halves of its clauses given out (1, 2, or both: 3)
  std::vector<bool> supported_;          // by node: new_support() has been there
  std::int32_t variable_count_ = 0;
};
