/* A libnvidia-ml.so.1 of scripted GPUs, for tests of the real NVML binding.
 *
 * The script is the file that NVML_SCRIPT names, read at nvmlInit. Time runs from t0_ns on CLOCK_MONOTONIC.
 * One setting a line; GPU numbers are NVML indices, power is in mW, times are in seconds:
 *
 *   t0_ns 123456789            start of the profiles
 *   gpus 4                     how many boards there are
 *   init 9                     what nvmlInit returns
 *   driver 575.51              driver version
 *   arch 0 9                   architecture number (default 9, Hopper)
 *   name 0 NVIDIA H200         rest of the line
 *   bus 0 4                    PCI bus number (default: index + 1)
 *   limit 0 700000             enforced power limit
 *   constant 0 250000          power profiles: constant;
 *   step 0 100000 400000 3.5     a level, then another from a time on;
 *   square 0 100000 400000 0.7   first and second half of a period
 *   quantum_ms 100             update period of counter and sensors
 *   instant_ms 25              how much of each period field 186 looks at
 *   counter_gain 0 1.2         the counter lies by this factor
 *   reset 0 4.0                the counter starts again from 0 at this time
 *   stale 0 4.0                the counter stands still from this time
 *   lost 0 4.0                 the GPU is lost from this time
 *   unsupported 0 energy       also: mean, instant, fields, energy_call, power_call, temperature, utilisation, limit, clock
 *   mig 0 MIG-1f2a             a MIG instance of this board
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_GPUS = 16, WORD = 64 };
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };
enum { COUNTER_OFFSET_MJ = 123456789 };

typedef struct board {
  int index, arch, bus;
  char name[WORD], mig[WORD], unsupported[4 * WORD];
  unsigned limit_mw;
  double first_mw, second_mw, at_s, period_s;
  double counter_gain, reset_s, stale_s, lost_s;
} board;

typedef union {
  double real;
  unsigned ui;
  unsigned long long ull;
} value;

typedef struct {
  uint32_t field, scope;
  int64_t timestamp_us, latency_us;
  uint32_t type;
  int32_t status;
  value value;
} field_value;
_Static_assert(sizeof(field_value) == 40, "as in nvml.h");

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
} pci_info;

static board boards[MAX_GPUS];
static int users, gpus, init_status;
static long long t0_ns;
static double quantum_s, instant_s;
static char driver[WORD];

static void defaults(void) {
  gpus = 1, init_status = SUCCESS, t0_ns = 0, quantum_s = 0.1, instant_s = 0.025;
  strcpy(driver, "575.51");
  for (int i = 0; i < MAX_GPUS; i++) {
    boards[i] = (board){.index = i, .arch = 9, .bus = i + 1, .name = "NVIDIA H200", .limit_mw = 700000,
                        .first_mw = 100000, .second_mw = 100000, .at_s = INFINITY, .counter_gain = 1,
                        .reset_s = INFINITY, .stale_s = INFINITY, .lost_s = INFINITY};
  }
}

static void profile(board *b, const char *rest) {
  double first, second, time;
  b->at_s = INFINITY, b->period_s = 0;
  int found = sscanf(rest, "%lf %lf %lf", &first, &second, &time);
  b->first_mw = first, b->second_mw = found > 1 ? second : first;
  if (found > 2) b->at_s = time;
}

static void set(board *b, const char *key, char *rest) {
  if (!strcmp(key, "name")) snprintf(b->name, WORD, "%s", rest);
  else if (!strcmp(key, "mig")) snprintf(b->mig, WORD, "%s", rest);
  else if (!strcmp(key, "unsupported")) { strcat(b->unsupported, " "), strcat(b->unsupported, rest), strcat(b->unsupported, " "); }
  else if (!strcmp(key, "arch")) b->arch = atoi(rest);
  else if (!strcmp(key, "bus")) b->bus = atoi(rest);
  else if (!strcmp(key, "limit")) b->limit_mw = atoi(rest);
  else if (!strcmp(key, "constant") || !strcmp(key, "step")) profile(b, rest);
  else if (!strcmp(key, "square")) { profile(b, rest), b->period_s = b->at_s; }
  else if (!strcmp(key, "counter_gain")) b->counter_gain = atof(rest);
  else if (!strcmp(key, "reset")) b->reset_s = atof(rest);
  else if (!strcmp(key, "stale")) b->stale_s = atof(rest);
  else if (!strcmp(key, "lost")) b->lost_s = atof(rest);
  else { fprintf(stderr, "fake_nvml: unknown setting %s\n", key); abort(); }
}

static void read_script(void) {
  defaults();
  FILE *script = fopen(getenv("NVML_SCRIPT") ? getenv("NVML_SCRIPT") : "", "r");
  if (!script) return;
  for (char line[256], key[WORD]; fgets(line, sizeof line, script);) {
    int index, at = 0;
    double number;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "driver %63s", driver) == 1 || sscanf(line, "t0_ns %lld", &t0_ns) == 1) continue;
    if (sscanf(line, "%63s %d %n", key, &index, &at) == 2 && at && line[at] && index >= 0 && index < MAX_GPUS) {
      set(&boards[index], key, line + at);
    } else if (sscanf(line, "%63s %lf", key, &number) == 2) {
      if (!strcmp(key, "gpus")) gpus = number;
      if (!strcmp(key, "init")) init_status = number;
      if (!strcmp(key, "quantum_ms")) quantum_s = number / 1e3;
      if (!strcmp(key, "instant_ms")) instant_s = number / 1e3;
    }
  }
  fclose(script);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return ((long long)t.tv_sec * 1000000000LL + t.tv_nsec - t0_ns) / 1e9;
}

/* The last update of sensors and counter. */
static double tick_s(void) { return floor(now_s() / quantum_s) * quantum_s; }

/* Integral of the profile from time 0 to t: the truth, in mJ. */
static double energy_mj(const board *b, double t) {
  if (b->period_s > 0) {
    double whole = floor(t / b->period_s), part = t - whole * b->period_s, half = b->period_s / 2;
    double cycle = half * (b->first_mw + b->second_mw);
    return whole * cycle + b->first_mw * fmin(part, half) + b->second_mw * fmax(0, part - half);
  }
  if (t <= b->at_s) return b->first_mw * t;
  return b->first_mw * b->at_s + b->second_mw * (t - b->at_s);
}

static unsigned mean_mw(const board *b, double window_s) {
  double end = tick_s();
  return lround((energy_mj(b, end) - energy_mj(b, end - window_s)) / window_s);
}

static unsigned long long counter_mj(const board *b) {
  double t = fmin(tick_s(), b->stale_s);
  double since = t >= b->reset_s ? energy_mj(b, b->reset_s) : -COUNTER_OFFSET_MJ / b->counter_gain;
  return (unsigned long long)(b->counter_gain * (energy_mj(b, t) - since));
}

static int status(const board *b, const char *what) {
  char word[WORD];
  if (!users) return UNINITIALIZED;
  if (now_s() >= b->lost_s) return LOST;
  snprintf(word, WORD, " %s ", what);
  return strstr(b->unsupported, word) ? NOT_SUPPORTED : SUCCESS;
}

static int copy(char *to, unsigned size, const char *text) {
  if (strlen(text) + 1 > size) return TOO_SMALL;
  strcpy(to, text);
  return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  read_script();
  if (init_status == SUCCESS) users++;
  return init_status;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return users ? (users--, SUCCESS) : UNINITIALIZED; }
const char *nvmlErrorString(int code) { return code == 28 ? "GPU not found" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { return users ? copy(to, size, driver) : UNINITIALIZED; }
int nvmlDeviceGetCount_v2(unsigned *count) { return users ? (*count = gpus, SUCCESS) : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, board **b) {
  if (index >= (unsigned)gpus) return INVALID_ARGUMENT;
  *b = &boards[index];
  return status(*b, "handle");
}

int nvmlDeviceGetHandleByUUID(const char *uuid, board **b) {
  for (int i = 0; i < gpus; i++) {
    if (boards[i].mig[0] && !strcmp(boards[i].mig, uuid)) return *b = &boards[i], SUCCESS;
  }
  return NOT_FOUND;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(board *mig, board **b) { return *b = mig, SUCCESS; }

int nvmlDeviceGetName(board *b, char *to, unsigned size) { return copy(to, size, b->name); }
int nvmlDeviceGetUUID(board *b, char *to, unsigned size) {
  char uuid[WORD];
  snprintf(uuid, WORD, "GPU-%08d-0000-0000-0000-000000000000", b->index);
  return copy(to, size, uuid);
}
int nvmlDeviceGetPciInfo_v3(board *b, pci_info *info) {
  memset(info, 0, sizeof *info);
  info->bus = b->bus;
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", b->bus);
  return status(b, "pci");
}
int nvmlDeviceGetMemoryInfo(board *b, unsigned long long *total_free_used) {
  total_free_used[0] = 141000000000ULL, total_free_used[1] = 140000000000ULL, total_free_used[2] = 1000000000ULL;
  return status(b, "memory");
}
int nvmlDeviceGetArchitecture(board *b, unsigned *arch) { return *arch = b->arch, status(b, "arch"); }
int nvmlDeviceGetTemperature(board *b, int sensor, unsigned *c) { return (void)sensor, *c = 60, status(b, "temperature"); }
int nvmlDeviceGetClockInfo(board *b, int clock, unsigned *mhz) { return (void)clock, *mhz = 1980, status(b, "clock"); }
int nvmlDeviceGetUtilizationRates(board *b, unsigned *gpu_memory) {
  gpu_memory[0] = 87, gpu_memory[1] = 40;
  return status(b, "utilisation");
}
int nvmlDeviceGetEnforcedPowerLimit(board *b, unsigned *mw) { return *mw = b->limit_mw, status(b, "limit"); }
int nvmlDeviceGetPowerUsage(board *b, unsigned *mw) { return *mw = mean_mw(b, 1.0), status(b, "power_call"); }
int nvmlDeviceGetTotalEnergyConsumption(board *b, unsigned long long *mj) {
  return *mj = counter_mj(b), status(b, "energy_call");
}

static void fill(const board *b, field_value *v) {
  v->value.ull = 0xDEADBEEF00000000ULL; /* the union's unused half may hold anything */
  switch (v->field) {
    case 83: v->status = status(b, "energy"), v->type = 3, v->value.ull = counter_mj(b); break;
    case 185: v->status = status(b, "mean"), v->type = 1, v->value.ui = mean_mw(b, 1.0); break;
    case 186: v->status = status(b, "instant"), v->type = 1, v->value.ui = mean_mw(b, instant_s); break;
    default: v->status = NOT_SUPPORTED;
  }
}

int nvmlDeviceGetFieldValues(board *b, int count, field_value *values) {
  struct timespec t;
  int code = status(b, "fields");
  if (code != SUCCESS) return code;
  clock_gettime(CLOCK_REALTIME, &t);
  for (int i = 0; i < count; i++) {
    values[i].timestamp_us = t.tv_sec * 1000000LL + t.tv_nsec / 1000;
    values[i].latency_us = 5;
    fill(b, &values[i]);
  }
  return SUCCESS;
}
