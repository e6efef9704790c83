
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab/report/environment.h"
#include "lab/report/file.h"

namespace heed::lab {
namespace {

TEST(LoadedObjectsTest, AreTheProgramHeedsLibraryAndLibTorchsButNotTheKernels) {
  const std::vector<LoadedObject> objects = LoadedObjects();
  for (const char* name : {"", "libheed_nn.so", "libtorch_cpu.so", "libc10.so"}) {
    const auto found = std::ranges::find(objects, name, &LoadedObject::name);
    ASSERT_NE(found, objects.end()) << name;
    EXPECT_GE(found->contents.size(), 8u) << name;
    EXPECT_EQ(std::ranges::count(objects, found->contents, &LoadedObject::contents), 1) << name;
  }
  for (const LoadedObject& object : objects) EXPECT_FALSE(object.name.starts_with("linux-")) << object.name;
}

TEST(LoadedObjectsTest, TheBuildIdIsTheOneInTheFile) {
  const std::string id = LoadedObjects().front().contents;
  const bool size_and_time = id.find_first_not_of("0123456789 ") == std::string::npos;  // a hash may hold a space too
  if (size_and_time) GTEST_SKIP() << "this linker makes no build ids";
  const std::string note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  EXPECT_NE(ReadFile("/proc/self/exe").find(note + id), std::string::npos);
}

TEST(BuildIdentityTest, DiffersWhereAnObjectDoes) {
  const std::vector<LoadedObject> objects = {{"", "1234"}, {"libheed_nn.so", "5678"}};
  const std::string identity = BuildIdentity(objects);
  EXPECT_EQ(identity.size(), 16u);
  EXPECT_EQ(identity.find_first_not_of("0123456789abcdef"), std::string::npos) << identity;
  EXPECT_EQ(BuildIdentity(objects), identity);
  const std::vector<std::vector<LoadedObject>> others = {{{"", "1235"}, {"libheed_nn.so", "5678"}},
                                                         {{"", "1234"}, {"libheed_nn.so", "5679"}},
                                                         {{"", "1234"}, {"libheed.so", "5678"}},
                                                         {{"", "1234libheed_nn.so"}, {"", "5678"}},
                                                         {{"", "1234"}},
                                                         {{"", "1234"}, {"libheed_nn.so", "5678"}, {"libm.so.6", "9"}}};
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_NE(BuildIdentity(others[i]), identity) << i;
}

TEST(BuildIdentityTest, IsOneForAProcess) { EXPECT_EQ(ThisEnvironment().build, BuildIdentity(LoadedObjects())); }

}  // namespace
}  // namespace heed::lab
