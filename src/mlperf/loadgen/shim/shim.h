// A plain-C door to MLPerf's LoadGen, compiled together with its unaltered sources into one shared library.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Raised with every change of what is below.
#define RLG_ABI 1

// As LoadGen's QuerySample and QuerySampleResponse; shim.cc holds them against each other when it is compiled.
typedef struct { uintptr_t id; size_t index; } rlg_sample;
typedef struct { uintptr_t id; uintptr_t data; size_t size; int64_t n_tokens; } rlg_response;

// The system under test and its samples. Callbacks come on LoadGen's threads.
typedef struct {
  void* context;
  const char* sut_name;
  const char* qsl_name;
  uint64_t total_samples;
  uint64_t performance_samples;
  void (*issue)(void* context, const rlg_sample* samples, size_t count);
  void (*flush)(void* context);
  void (*load)(void* context, const size_t* samples, size_t count);
  void (*unload)(void* context, const size_t* samples, size_t count);
} rlg_sut;

int rlg_abi(void);
// Both live as long as the library.
const char* rlg_version(void);
const char* rlg_revision(void);

// scenario: 0 SingleStream, 1 MultiStream, 2 Server, 3 Offline. mode: 1 accuracy, 2 performance. NULL: neither of these.
void* rlg_settings_new(int scenario, int mode);
void rlg_settings_free(void* settings);
// Reads the built-in mlperf.conf and then this user.conf. 0 when it was understood.
int rlg_settings_read(void* settings, const char* user_conf, const char* model, const char* scenario);
// 0, or -1: there is no such setting.
int rlg_settings_number(const void* settings, const char* key, double* value);
// 0: qsl, 1: sample index, 2: schedule.
uint64_t rlg_settings_seed(const void* settings, int which);

// Runs one test to its end. An `audit_config` that is no file is none. 0, or what was thrown is in `error`.
int rlg_test(void* settings, const rlg_sut* sut, const char* out_dir, const char* audit_config, char* error, size_t error_size);

void rlg_first_tokens(rlg_response* responses, size_t count);
void rlg_completions(rlg_response* responses, size_t count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
