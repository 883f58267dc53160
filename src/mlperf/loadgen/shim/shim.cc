#include "shim.h"

#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "loadgen.h"
#include "query_sample.h"
#include "query_sample_library.h"
#include "system_under_test.h"
#include "test_settings.h"
#include "version.h"

using mlperf::QuerySample;
using mlperf::QuerySampleIndex;
using mlperf::QuerySampleResponse;
using mlperf::TestSettings;

static_assert(sizeof(rlg_sample) == sizeof(QuerySample) && offsetof(rlg_sample, id) == offsetof(QuerySample, id) &&
                  offsetof(rlg_sample, index) == offsetof(QuerySample, index) &&
                  sizeof(QuerySampleIndex) == sizeof(size_t),
              "QuerySample is another");
static_assert(sizeof(rlg_response) == sizeof(QuerySampleResponse) &&
                  offsetof(rlg_response, id) == offsetof(QuerySampleResponse, id) &&
                  offsetof(rlg_response, data) == offsetof(QuerySampleResponse, data) &&
                  offsetof(rlg_response, size) == offsetof(QuerySampleResponse, size) &&
                  offsetof(rlg_response, n_tokens) == offsetof(QuerySampleResponse, n_tokens),
              "QuerySampleResponse is another");

namespace {

class Sut : public mlperf::SystemUnderTest {
 public:
  explicit Sut(const rlg_sut* told) : told_(told), name_(told->sut_name) {}
  const std::string& Name() override { return name_; }
  void IssueQuery(const std::vector<QuerySample>& samples) override {
    told_->issue(told_->context, reinterpret_cast<const rlg_sample*>(samples.data()), samples.size());
  }
  void FlushQueries() override { told_->flush(told_->context); }

 private:
  const rlg_sut* told_;
  std::string name_;
};

class Samples : public mlperf::QuerySampleLibrary {
 public:
  explicit Samples(const rlg_sut* told) : told_(told), name_(told->qsl_name) {}
  const std::string& Name() override { return name_; }
  size_t TotalSampleCount() override { return told_->total_samples; }
  size_t PerformanceSampleCount() override { return told_->performance_samples; }
  void LoadSamplesToRam(const std::vector<QuerySampleIndex>& samples) override {
    told_->load(told_->context, samples.data(), samples.size());
  }
  void UnloadSamplesFromRam(const std::vector<QuerySampleIndex>& samples) override {
    told_->unload(told_->context, samples.data(), samples.size());
  }

 private:
  const rlg_sut* told_;
  std::string name_;
};

const TestSettings* of(const void* settings) { return static_cast<const TestSettings*>(settings); }

void tell(char* error, size_t size, const char* what) {
  if (size == 0) return;
  std::strncpy(error, what, size - 1);
  error[size - 1] = 0;
}

}  // namespace

extern "C" {

int rlg_abi(void) { return RLG_ABI; }
const char* rlg_version(void) { return mlperf::LoadgenVersion().c_str(); }
const char* rlg_revision(void) { return mlperf::LoadgenGitRevision().c_str(); }

void* rlg_settings_new(int scenario, int mode) {
  if (scenario < 0 || scenario > 3 || mode < 1 || mode > 2) return nullptr;
  auto* settings = new TestSettings();
  settings->scenario = static_cast<mlperf::TestScenario>(scenario);
  settings->mode = static_cast<mlperf::TestMode>(mode);
  return settings;
}

void rlg_settings_free(void* settings) { delete static_cast<TestSettings*>(settings); }

int rlg_settings_read(void* settings, const char* user_conf, const char* model, const char* scenario) {
  try {
    return static_cast<TestSettings*>(settings)->FromConfig(user_conf, model, scenario, 1);
  } catch (...) {
    return -1000;
  }
}

int rlg_settings_number(const void* settings, const char* key, double* value) {
#define RLG_SETTING(name)                                \
  if (!std::strcmp(key, #name)) {                        \
    *value = static_cast<double>(of(settings)->name);    \
    return 0;                                            \
  }
  RLG_SETTING(server_target_qps)
  RLG_SETTING(server_target_latency_ns)
  RLG_SETTING(server_target_latency_percentile)
  RLG_SETTING(server_max_async_queries)
  RLG_SETTING(server_ttft_latency)
  RLG_SETTING(server_tpot_latency)
  RLG_SETTING(offline_expected_qps)
  RLG_SETTING(single_stream_expected_latency_ns)
  RLG_SETTING(sample_concatenate_permutation)
  RLG_SETTING(min_duration_ms)
  RLG_SETTING(max_duration_ms)
  RLG_SETTING(min_query_count)
  RLG_SETTING(max_query_count)
  RLG_SETTING(performance_sample_count_override)
  RLG_SETTING(use_token_latencies)
#undef RLG_SETTING
  return -1;
}

uint64_t rlg_settings_seed(const void* settings, int which) {
  switch (which) {
    case 0:
      return of(settings)->qsl_rng_seed;
    case 1:
      return of(settings)->sample_index_rng_seed;
    default:
      return of(settings)->schedule_rng_seed;
  }
}

int rlg_test(void* settings, const rlg_sut* told, const char* out_dir, const char* audit_config, char* error, size_t size) {
  try {
    Sut sut(told);
    Samples samples(told);
    mlperf::LogSettings log;
    log.log_output.outdir = out_dir;
    log.log_output.prefix = "mlperf_log_";
    log.log_output.copy_summary_to_stdout = false;
    log.log_output.copy_detail_to_stdout = false;
    log.enable_trace = false;
    mlperf::StartTest(&sut, &samples, *of(settings), log, audit_config);
    return 0;
  } catch (const std::exception& thrown) {
    tell(error, size, thrown.what());
  } catch (...) {
    tell(error, size, "something that is no std::exception was thrown");
  }
  return -1;
}

void rlg_first_tokens(rlg_response* responses, size_t count) {
  mlperf::FirstTokenComplete(reinterpret_cast<QuerySampleResponse*>(responses), count);
}

void rlg_completions(rlg_response* responses, size_t count) {
  mlperf::QuerySamplesComplete(reinterpret_cast<QuerySampleResponse*>(responses), count);
}

}  // extern "C"
