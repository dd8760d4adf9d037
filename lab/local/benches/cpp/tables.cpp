// The C++ tables beside those of `benches/tables.rs`: the same keys, orders and steps, by the same hash.
// Run by scripts/bench-local; prints one line a measurement: what, table, entries, nanoseconds an operation.
//
// Debian: g++ libabsl-dev libboost1.81-dev libcuckoo-dev.

#include <absl/container/flat_hash_map.h>
#include <boost/unordered/unordered_flat_map.hpp>
#include <libcuckoo/cuckoohash_map.hh>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBatch = 1'000'000;
constexpr int kRounds = 5;

// A folded multiplication, as good a hash of one word as foldhash's. Boost would mix a hash again
// that does not say of itself that it needs no mixing.
struct Hash {
  using is_avalanching = void;
  std::size_t operator()(std::uint64_t key) const {
    const auto product = static_cast<unsigned __int128>(key ^ 0x243f6a8885a308d3ull) * 0x9e3779b97f4a7c15ull;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
};

// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t mixed = state += 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return mixed ^ (mixed >> 31);
  }
};

template <class Map>
struct StdLike {
  Map map;
  explicit StdLike(std::size_t entries) { map.reserve(entries); }
  void put(std::uint64_t key, std::uint64_t value) { map.insert_or_assign(key, value); }
  bool get(std::uint64_t key, std::uint64_t& value) const {
    const auto at = map.find(key);
    if (at == map.end()) return false;
    value = at->second;
    return true;
  }
  void remove(std::uint64_t key) { map.erase(key); }
};

struct Libcuckoo {
  libcuckoo::cuckoohash_map<std::uint64_t, std::uint64_t, Hash> map;
  explicit Libcuckoo(std::size_t entries) : map(entries + entries / 9) {}
  void put(std::uint64_t key, std::uint64_t value) { map.insert_or_assign(key, value); }
  bool get(std::uint64_t key, std::uint64_t& value) const { return map.find(key, value); }
  void remove(std::uint64_t key) { map.erase(key); }
};

// Nanoseconds of processor time an operation: the median of the rounds.
template <class Round>
void measure(const char* what, const char* table, std::size_t entries, std::size_t operations, Round round) {
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) times.push_back(round());
  std::sort(times.begin(), times.end());
  std::printf("%s,%s,%zu,%.2f\n", what, table, entries, times[kRounds / 2] * 1e9 / static_cast<double>(operations));
  std::fflush(stdout);
}

template <class Work>
double seconds(Work work) {
  const auto now = [] {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  const auto start = now();
  work();
  return now() - start;
}

[[noreturn]] void wrong(const char* table) {
  std::fprintf(stderr, "%s gave a wrong answer\n", table);
  std::exit(1);
}

template <class Table>
void all(const char* name, std::size_t entries) {
  Random random{entries};
  const std::size_t asked = std::min(entries, kBatch);
  std::vector<std::uint64_t> present(entries), absent(asked);
  std::vector<std::size_t> order(asked);
  for (auto& key : present) key = random.next() >> 1;
  for (auto& key : absent) key = random.next() | 1ull << 63;
  for (auto& index : order) index = random.next() % entries;

  std::unique_ptr<Table> table;
  measure("insert", name, entries, entries, [&] {
    table.reset();
    table = std::make_unique<Table>(entries);
    return seconds([&] {
      for (const auto key : present) table->put(key, ~key);
    });
  });
  measure("hit", name, entries, asked, [&] {
    return seconds([&] {
      for (const auto index : order) {
        std::uint64_t value;
        if (!table->get(present[index], value) || value != ~present[index]) wrong(name);
      }
    });
  });
  measure("miss", name, entries, asked, [&] {
    return seconds([&] {
      for (const auto key : absent) {
        std::uint64_t value;
        if (table->get(key, value)) wrong(name);
      }
    });
  });
  measure("mixed", name, entries, 2 * asked, [&] {
    return seconds([&] {
      std::uint64_t value;
      for (std::size_t i = 0; i + 1 < asked; i += 2) {
        const auto one = present[order[i]], two = present[order[i + 1]];
        if (!table->get(one, value) || !table->get(two, value)) wrong(name);
        table->remove(one);
        table->put(one, ~one);
      }
    });
  });
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const std::size_t entries = std::stoull(arguments[i]);
    all<StdLike<absl::flat_hash_map<std::uint64_t, std::uint64_t, Hash>>>("absl", entries);
    all<StdLike<boost::unordered_flat_map<std::uint64_t, std::uint64_t, Hash>>>("boost", entries);
    all<Libcuckoo>("libcuckoo", entries);
  }
}
