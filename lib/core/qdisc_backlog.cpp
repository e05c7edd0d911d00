#include "qdisc_backlog.hpp"

#include <linux/gen_stats.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace {

constexpr std::uint32_t root_handle = 0x10000;

struct Request {
  nlmsghdr header;
  tcmsg body;
};

// The payload of an attribute among `length` bytes of attributes, or nullptr.
const rtattr* find(const rtattr* attribute, std::size_t length, unsigned short wanted) {
  int left = static_cast<int>(length);
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
    if ((attribute->rta_type & NLA_TYPE_MASK) == wanted) return attribute;
  return nullptr;
}

}  // namespace

QdiscBacklog::QdiscBacklog() : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  if (socket_ < 0) throw std::system_error(errno, std::generic_category(), "netlink socket");
}

QdiscBacklog::~QdiscBacklog() { close(socket_); }

std::int64_t QdiscBacklog::bytes(int interface) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETQDISC;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ECHO;  // without echo only listeners hear the answer
  request.body.tcm_ifindex = interface;
  request.body.tcm_handle = root_handle;
  if (send(socket_, &request, sizeof request, 0) < 0) return -1;
  alignas(nlmsghdr) std::array<char, 8192> answer;
  const ssize_t length = recv(socket_, answer.data(), answer.size(), MSG_DONTWAIT);  // it is there already
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (length < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(tcmsg))) || header->nlmsg_type != RTM_NEWQDISC) return -1;
  const char* first = answer.data() + NLMSG_LENGTH(sizeof(tcmsg));
  const std::size_t all = header->nlmsg_len - NLMSG_LENGTH(sizeof(tcmsg));
  const rtattr* statistics = find(reinterpret_cast<const rtattr*>(first), all, TCA_STATS2);
  if (!statistics) return -1;
  const rtattr* queue = find(static_cast<const rtattr*>(RTA_DATA(statistics)),
                             static_cast<std::size_t>(RTA_PAYLOAD(statistics)), TCA_STATS_QUEUE);
  if (!queue) return -1;
  gnet_stats_queue counts{};
  std::memcpy(&counts, RTA_DATA(queue), sizeof counts);
  return counts.backlog;
}
