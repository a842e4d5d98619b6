#include "engine/isa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace zf {
namespace {

/// Sets ZF_ISA for one test and restores it afterwards.
class ZfIsa {
 public:
  explicit ZfIsa(const char* value) {
    if (const char* old = std::getenv("ZF_ISA")) old_ = old;
    if (value != nullptr) {
      setenv("ZF_ISA", value, 1);
    } else {
      unsetenv("ZF_ISA");
    }
  }
  ~ZfIsa() {
    if (old_) {
      setenv("ZF_ISA", old_->c_str(), 1);
    } else {
      unsetenv("ZF_ISA");
    }
  }
  ZfIsa(const ZfIsa&) = delete;
  ZfIsa& operator=(const ZfIsa&) = delete;

 private:
  std::optional<std::string> old_;
};

constexpr Isa kAll[] = {Isa::scalar, Isa::neon, Isa::avx2, Isa::avx512};

TEST(Isa, NamesRoundTrip) {
  for (const Isa isa : kAll) EXPECT_EQ(value_named<Isa>(name_of(isa)), isa);
  EXPECT_FALSE(value_named<Isa>("AVX2"));
  EXPECT_FALSE(value_named<Isa>(""));
}

TEST(Isa, WidestSupportedIsChosen) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ZfIsa environment(unset);
    const Isa chosen = chosen_isa();
    EXPECT_TRUE(is_supported(chosen));
    for (const Isa isa : kAll) EXPECT_TRUE(isa <= chosen || !is_supported(isa));
  }
}

TEST(Isa, EnvironmentOverrides) {
  for (const Isa isa : kAll) {
    const ZfIsa environment(std::string(name_of(isa)).c_str());
    if (is_supported(isa)) {
      EXPECT_EQ(chosen_isa(), isa);
    } else {
      EXPECT_THROW(chosen_isa(), Error) << "a CPU without it must refuse, not crash later";
    }
  }
}

TEST(Isa, UnknownNameIsRefusedWithTheNamesThatExist) {
  const ZfIsa environment("avx1024");
  try {
    chosen_isa();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("ZF_ISA"), testing::HasSubstr("avx1024")));
    for (const Isa isa : kAll) EXPECT_THAT(error.what(), testing::HasSubstr(std::string(name_of(isa))));
  }
}

}  // namespace
}  // namespace zf
