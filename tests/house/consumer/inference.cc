// The files of trained models in a program without LibTorch: what is no safetensors file is refused by its name.
#include <heed/error.h>
#include <heed/safetensors.h>

#include <cstdio>
#include <string>

int main(int, char** argv) {
  try {
    heed::SafetensorsFile file(argv[0]);
  } catch (const heed::FileError& error) {
    std::puts(error.what());
    return std::string(error.what()).find(argv[0]) != std::string::npos ? 0 : 1;
  }
  return 1;
}
