#include "base/json.hpp"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Json all() {
    Json value = next(0);
    skip_space();
    if (place_ != text_.size()) refuse();
    return value;
  }

 private:
  static constexpr int deepest = 64;

  [[noreturn]] void refuse() const {
    throw std::invalid_argument("no JSON from character " + std::to_string(place_) + " on");
  }
  char peek() const { return place_ < text_.size() ? text_[place_] : '\0'; }
  void skip_space() {
    while (place_ < text_.size() && std::string_view(" \t\n\r").find(text_[place_]) != std::string_view::npos) ++place_;
  }
  bool take(std::string_view word) {
    if (text_.substr(place_, word.size()) != word) return false;
    place_ += word.size();
    return true;
  }
  void need(std::string_view word) {
    skip_space();
    if (!take(word)) refuse();
  }

  Json next(int depth) {
    if (depth > deepest) refuse();
    skip_space();
    Json value;
    switch (peek()) {
      case '{':
        read_object(value, depth);
        break;
      case '[':
        read_list(value, depth);
        break;
      case '"':
        value.kind_ = Json::Kind::text;
        value.text_ = string();
        break;
      case 'n':
        need("null");
        break;
      case 't':
      case 'f':
        value.kind_ = Json::Kind::flag;
        value.flag_ = take("true");
        if (!value.flag_) need("false");
        break;
      default:
        read_number(value);
    }
    return value;
  }

  void read_object(Json& value, int depth) {
    value.kind_ = Json::Kind::object;
    need("{");
    skip_space();
    if (take("}")) return;
    do {
      skip_space();
      std::string name = string();
      need(":");
      value.members_.emplace_back(std::move(name), next(depth + 1));
      skip_space();
    } while (take(","));
    need("}");
  }

  void read_list(Json& value, int depth) {
    value.kind_ = Json::Kind::list;
    need("[");
    skip_space();
    if (take("]")) return;
    do {
      value.items_.push_back(next(depth + 1));
      skip_space();
    } while (take(","));
    need("]");
  }

  void read_number(Json& value) {
    const std::size_t first = place_;
    while (place_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[place_])) ||
                                     std::string_view("+-.eE").find(text_[place_]) != std::string_view::npos))
      ++place_;
    const std::string digits(text_.substr(first, place_ - first));
    char* end = nullptr;
    value.kind_ = Json::Kind::number;
    value.number_ = std::strtod(digits.c_str(), &end);  // rounds as Python does; std::from_chars is not everywhere yet
    if (digits.empty() || digits[0] == '+' || *end != '\0') refuse();
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value.whole_);
    value.is_whole_ = error == std::errc() && *rest == '\0';
  }

  std::string string() {
    need("\"");
    std::string read;
    while (peek() != '"') {
      if (static_cast<unsigned char>(peek()) < 0x20) refuse();
      if (peek() != '\\')
        read += text_[place_++];
      else
        read += escaped();
    }
    ++place_;
    return read;
  }

  std::string escaped() {
    ++place_;
    static constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    const char letter = peek();
    if (const std::size_t which = letters.find(letter); letter != '\0' && which != std::string_view::npos) {
      ++place_;
      return {meant[which]};
    }
    unsigned code = unit();
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(place_, 1) == "\\") {
      ++place_;
      code = 0x10000 + ((code - 0xd800) << 10) + (unit() - 0xdc00);
    }
    return utf8(code);
  }
  // Four hexadecimal digits behind a u.
  unsigned unit() {
    unsigned code = 0;
    if (!take("u") || place_ + 4 > text_.size()) refuse();
    const char* first = text_.data() + place_;
    if (std::from_chars(first, first + 4, code, 16).ptr != first + 4) refuse();
    place_ += 4;
    return code;
  }
  static std::string utf8(unsigned code) {
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x80) return {static_cast<char>(code)};
    if (code < 0x800) return {static_cast<char>(0xc0 | (code >> 6)), tail(0)};
    if (code < 0x10000) return {static_cast<char>(0xe0 | (code >> 12)), tail(6), tail(0)};
    return {static_cast<char>(0xf0 | (code >> 18)), tail(12), tail(6), tail(0)};
  }

  std::string_view text_;
  std::size_t place_ = 0;
};

Json Json::parse(std::string_view text) { return JsonReader(text).all(); }

void Json::refuse(const char* wanted) const {
  static constexpr const char* kinds[] = {"null", "a flag", "a number", "a text", "a list", "an object"};
  throw std::invalid_argument(std::string(kinds[static_cast<int>(kind_)]) + " in place of " + wanted);
}
bool Json::flag() const {
  if (kind_ != Kind::flag) refuse("a flag");
  return flag_;
}
double Json::number() const {
  if (kind_ != Kind::number) refuse("a number");
  return number_;
}
std::uint64_t Json::whole() const {
  if (kind_ != Kind::number) refuse("a whole number");
  if (is_whole_) return whole_;
  // Python writes 1514.0 for what the core keeps as a whole number.
  if (!(number_ >= 0 && number_ < 9e15) || number_ != static_cast<double>(static_cast<std::uint64_t>(number_)))
    throw std::invalid_argument("a number in place of a whole one");
  return static_cast<std::uint64_t>(number_);
}
std::uint32_t Json::small() const {
  const std::uint64_t value = whole();
  if (value > std::numeric_limits<std::uint32_t>::max()) throw std::invalid_argument("a whole number of 2^32 or more");
  return static_cast<std::uint32_t>(value);
}
const std::string& Json::text() const {
  if (kind_ != Kind::text) refuse("a text");
  return text_;
}
const std::vector<Json>& Json::items() const {
  if (kind_ != Kind::list) refuse("a list");
  return items_;
}
const std::vector<Json::Member>& Json::members() const {
  if (kind_ != Kind::object) refuse("an object");
  return members_;
}
const Json& Json::at(std::size_t place) const {
  if (place >= items().size()) throw std::invalid_argument("a list that is too short");
  return items_[place];
}
const Json& Json::operator[](const char* name) const {
  const Json* member = find(name);
  if (!member) throw std::invalid_argument(std::string("an object without \"") + name + "\"");
  return *member;
}
const Json* Json::find(std::string_view name) const {
  for (const auto& [each, value] : members())
    if (each == name) return &value;
  return nullptr;
}
