// A value of JSON (RFC 8259), for descriptions that come as text. Whole numbers up to 2^64 - 1 keep all their digits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

class Json {
 public:
  using Member = std::pair<std::string, Json>;

  // Throws std::invalid_argument, with the place of the error, for text that is not JSON.
  static Json parse(std::string_view text);

  bool is_null() const { return kind_ == Kind::null; }
  // Each throws std::invalid_argument for a value of another kind.
  bool flag() const;
  double number() const;
  std::uint64_t whole() const;
  std::uint32_t small() const;
  const std::string& text() const;
  const std::vector<Json>& items() const;
  const std::vector<Member>& members() const;
  // Throws std::invalid_argument for no such item or member.
  const Json& at(std::size_t place) const;
  const Json& operator[](const char* name) const;
  const Json* find(std::string_view name) const;  // nullptr without such a member

 private:
  enum class Kind : std::uint8_t { null, flag, number, text, list, object };
  friend class JsonReader;

  [[noreturn]] void refuse(const char* wanted) const;

  Kind kind_ = Kind::null;
  bool flag_ = false, is_whole_ = false;
  double number_ = 0;
  std::uint64_t whole_ = 0;
  std::string text_;
  std::vector<Json> items_;
  std::vector<Member> members_;
};
