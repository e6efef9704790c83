// Preloaded into a program, makes one of its calls fail as a full disk, a broken one or too little memory would.
//
// HEED_FAIL=KIND:N:  the N-th call of that kind from main() on fails; 0: none
//   memory           malloc and its kin give no memory (ENOMEM)
//   write            write, writev, fwrite, fflush, renameat (ENOSPC) and fsync (EIO)
//   read             read, pread, fread and the opening of files that are not the machine's (EIO)
//   signal           none fails: somebody types Ctrl-C (SIGINT) at the N-th call for memory
// HEED_CALLS=FILE:   where the number of calls of that kind is written at the end
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

enum Kind { kNone, kMemory, kWrite, kRead, kSignal };
static enum Kind kind;
static long chosen;
static atomic_long calls;
static atomic_int begun;

static int Fails(enum Kind of, int error) {
  const _Bool counts = kind == of || (kind == kSignal && of == kMemory);
  if (!atomic_load(&begun) || !counts || atomic_fetch_add(&calls, 1) + 1 != chosen) return 0;
  if (kind == kSignal) {
    raise(SIGINT);
    return 0;
  }
  errno = error;
  return 1;
}

static void Report(void) {
  const char* path = getenv("HEED_CALLS");
  const long counted = atomic_load(&calls);
  atomic_store(&begun, 0);
  if (path == NULL) return;
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", counted);
  fclose(file);
}

// What comes before main() (libraries that start) is not the program's.
static int (*real_main)(int, char**, char**);
static int Main(int argc, char** argv, char** environment) {
  atexit(Report);
  atomic_store(&begun, 1);
  return real_main(argc, argv, environment);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int __libc_start_main(int (*program)(int, char**, char**), int argc, char** argv, void (*first)(void), void (*last)(void),
                      void (*loader)(void), void* stack) {
  const char* asked = getenv("HEED_FAIL");
  if (asked != NULL) {
    static const char* const kNames[] = {"none", "memory", "write", "read", "signal"};
    for (kind = kSignal; kind != kNone && strncmp(asked, kNames[kind], strlen(kNames[kind])) != 0; --kind) {
    }
    chosen = atol(strchr(asked, ':') + 1);
  }
  unsetenv("LD_PRELOAD");  // programs that this one starts have their own faults
  real_main = program;
  int (*start)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*) =
      dlsym(RTLD_NEXT, "__libc_start_main");
  return start(Main, argc, argv, first, last, loader, stack);
}

void* malloc(size_t bytes) { return Fails(kMemory, ENOMEM) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return Fails(kMemory, ENOMEM) ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) { return Fails(kMemory, ENOMEM) ? NULL : __libc_realloc(memory, bytes); }
void* memalign(size_t alignment, size_t bytes) { return Fails(kMemory, ENOMEM) ? NULL : __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* made = memalign(alignment, bytes);
  if (made == NULL) return ENOMEM;
  *memory = made;
  return 0;
}

ssize_t write(int file, const void* data, size_t bytes) { return Fails(kWrite, ENOSPC) ? -1 : REAL(write)(file, data, bytes); }
ssize_t writev(int file, const struct iovec* parts, int count) { return Fails(kWrite, ENOSPC) ? -1 : REAL(writev)(file, parts, count); }
size_t fwrite(const void* data, size_t size, size_t count, FILE* file) {
  return Fails(kWrite, ENOSPC) ? 0 : REAL(fwrite)(data, size, count, file);
}
int fflush(FILE* file) { return Fails(kWrite, ENOSPC) ? EOF : REAL(fflush)(file); }
int fsync(int file) { return Fails(kWrite, EIO) ? -1 : REAL(fsync)(file); }
int renameat(int there, const char* from, int here, const char* to) {
  return Fails(kWrite, ENOSPC) ? -1 : REAL(renameat)(there, from, here, to);
}

// Files of the machine (processors, libraries) are read by libraries, each in its own way; what fails is a file of the user's.
static _Bool ours[1024];
static _Bool IsOurs(const char* path) {
  static const char* const kMachine[] = {"/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib"};
  for (size_t i = 0; i < sizeof kMachine / sizeof *kMachine; ++i) {
    if (strncmp(path, kMachine[i], strlen(kMachine[i])) == 0) return 0;
  }
  return 1;
}
static int Noted(int file, const char* path) {
  if (file >= 0 && file < 1024) ours[file] = IsOurs(path);
  return file;
}
static _Bool Reads(int file) { return file >= 0 && file < 1024 && ours[file] && Fails(kRead, EIO); }

ssize_t read(int file, void* data, size_t bytes) { return Reads(file) ? -1 : REAL(read)(file, data, bytes); }
ssize_t pread64(int file, void* data, size_t bytes, off64_t at) { return Reads(file) ? -1 : REAL(pread64)(file, data, bytes, at); }
ssize_t pread(int file, void* data, size_t bytes, off_t at) { return Reads(file) ? -1 : REAL(pread)(file, data, bytes, at); }
size_t fread(void* data, size_t size, size_t count, FILE* file) {
  return Reads(fileno(file)) ? 0 : REAL(fread)(data, size, count, file);
}
static FILE* Opened(FILE* file, const char* path) {
  if (file != NULL) Noted(fileno(file), path);
  return file;
}
FILE* fopen(const char* path, const char* mode) {
  return IsOurs(path) && Fails(kRead, EIO) ? NULL : Opened(REAL(fopen)(path, mode), path);
}
FILE* fopen64(const char* path, const char* mode) {
  return IsOurs(path) && Fails(kRead, EIO) ? NULL : Opened(REAL(fopen64)(path, mode), path);
}
static mode_t Mode(int flags, va_list more) { return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0; }
int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = Mode(flags, more);
  va_end(more);
  return IsOurs(path) && Fails(kRead, EIO) ? -1 : Noted(REAL(open)(path, flags, mode), path);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = Mode(flags, more);
  va_end(more);
  return IsOurs(path) && Fails(kRead, EIO) ? -1 : Noted(REAL(openat)(folder, path, flags, mode), path);
}
