/* A libnvidia-ml.so.1 of scripted GPUs, for tests of the real NVML binding.
 *
 * The script is the file that NVML_SCRIPT names, read at nvmlInit. Time runs from t0_ns on CLOCK_MONOTONIC, or is what
 * fake_nvml_at() was told. One setting a line; GPU numbers are NVML indices, power is in mW, times are in seconds:
 *
 *   t0_ns 123456789            start of the profiles
 *   gpus 4                     how many boards there are
 *   gpus_at 4.0 3              how many are listed from a time on
 *   init 9                     what nvmlInit returns
 *   driver 575.51              driver version
 *   quantum_ms 100             update period of counter and sensors of all boards
 *   instant_ms 25              how much of each period field 186 looks at
 *   arch 0 9                   architecture number (default 9, Hopper)
 *   name 0 NVIDIA H200         rest of the line
 *   bus 0 4                    PCI bus number (default: index + 1)
 *   limit 0 700000             enforced power limit
 *   limit_at 0 4.0 500000      another one from a time on
 *   constant 0 250000          power profiles: constant;
 *   step 0 100000 400000 3.5     a level, then another from a time on;
 *   square 0 100000 400000 0.7   first and second half of a period;
 *   points 0 0:100000 2:300000   straight lines from point to point, level after the last; equal times make a jump
 *   repeat 0 5.0               the points start again after this time
 *   update_ms 0 97             update period of this board alone
 *   phase_ms 0 30              its updates come so much after whole periods
 *   counter_gain 0 1.2         the counter lies by this factor
 *   power_gain 0 1.2           the power readings lie by this factor
 *   awake 0 50000              draws so much more while it is read more often than twice a second
 *   reset 0 4.0                the counter starts again from 0 at this time
 *   stale 0 4.0                the counter stands still from this time
 *   lost 0 4.0                 the GPU is lost from this time
 *   unsupported 0 energy       also: mean, instant, fields, energy_call, power_call, temperature, utilisation, limit,
 *                              clock, throttle, throttled, processes, mig, virtual, scopes
 *   deny 0 processes           the same names: this user may not read it
 *   smoothing 0 60             power smoothing is on, with a floor of so many percent
 *   scope 0 1 650000           mean power of another scope: 1 module, 2 memory
 *   temperature 0 70 40 10     falls from the first to the second (degrees) within so many seconds
 *   throttle 0 2.0 6.0 4       clocks are held back between two times for NVML's reasons
 *   process 0 4711 2.0 6.0     a compute process between two times
 *   mig 0 MIG-1f2a             a MIG instance of this board; its MIG mode is on
 *   virtual 0 2                virtualization mode
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 16, WORD = 64, MAX_POINTS = 64, MAX_PROCESSES = 4 };
enum {
  SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
  TOO_SMALL = 7, LOST = 15
};
enum { COUNTER_OFFSET_MJ = 123456789 };

typedef struct { double at_s, mw; } point;
typedef struct { double from_s, to_s; unsigned what; } span;

typedef struct board {
  int index, arch, bus, point_count, process_count;
  char name[WORD], mig[WORD], unsupported[4 * WORD], denied[4 * WORD];
  point points[MAX_POINTS];
  span processes[MAX_PROCESSES], throttle;
  unsigned limit_mw, late_limit_mw, virtual_mode, scope_mw[3], smoothing_pct;
  double period_s, update_s, phase_s, counter_gain, power_gain, reset_s, stale_s, lost_s, limit_s;
  double warm_c, cool_c, cooling_s;
  double awake_mw, read_s, extra_mj, shown_extra_mj, shown_s;
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

typedef struct {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
} process_info;

static board boards[MAX_GPUS];
static int users, gpus, late_gpus, init_status;
static pid_t owner;
static long long t0_ns, told_ns = -1;
static double quantum_s, instant_s, gpus_s;
static char driver[WORD];

static void defaults(void) {
  gpus = 1, gpus_s = INFINITY, init_status = SUCCESS, t0_ns = 0, quantum_s = 0.1, instant_s = 0.025;
  strcpy(driver, "575.51");
  for (int i = 0; i < MAX_GPUS; i++) {
    boards[i] = (board){.index = i, .arch = 9, .bus = i + 1, .name = "NVIDIA H200", .limit_mw = 700000,
                        .points = {{0, 100000}}, .point_count = 1, .counter_gain = 1, .power_gain = 1,
                        .reset_s = INFINITY, .stale_s = INFINITY, .lost_s = INFINITY, .limit_s = INFINITY,
                        .warm_c = 60, .cool_c = 60, .cooling_s = 1, .read_s = -INFINITY, .shown_s = -INFINITY};
  }
}

static void add_point(board *b, double at_s, double mw) {
  if (b->point_count == MAX_POINTS) abort();
  b->points[b->point_count++] = (point){at_s, mw};
}

static void profile(board *b, const char *key, char *rest) {
  double first, second = 0, time = 0;
  b->point_count = 0, b->period_s = 0;
  if (!strcmp(key, "points")) {
    for (char *word = strtok(rest, " "); word; word = strtok(NULL, " ")) {
      double at_s, mw;
      if (sscanf(word, "%lf:%lf", &at_s, &mw) == 2) add_point(b, at_s, mw);
    }
    return;
  }
  sscanf(rest, "%lf %lf %lf", &first, &second, &time);
  add_point(b, 0, first);
  if (!strcmp(key, "constant")) return;
  int square = !strcmp(key, "square");
  add_point(b, square ? time / 2 : time, first), add_point(b, square ? time / 2 : time, second);
  if (square) b->period_s = time;
}

static span span_of(const char *rest, int with_pid) {
  span s = {0, INFINITY, 0};
  if (with_pid) sscanf(rest, "%u %lf %lf", &s.what, &s.from_s, &s.to_s);
  else sscanf(rest, "%lf %lf %u", &s.from_s, &s.to_s, &s.what);
  return s;
}

static void add_word(char *words, const char *word) { strcat(words, " "), strcat(words, word), strcat(words, " "); }

static int set_state(board *b, const char *key, char *rest) {
  if (!strcmp(key, "limit")) b->limit_mw = atoi(rest);
  else if (!strcmp(key, "limit_at")) sscanf(rest, "%lf %u", &b->limit_s, &b->late_limit_mw);
  else if (!strcmp(key, "temperature")) sscanf(rest, "%lf %lf %lf", &b->warm_c, &b->cool_c, &b->cooling_s);
  else if (!strcmp(key, "throttle")) b->throttle = span_of(rest, 0);
  else if (!strcmp(key, "process")) b->processes[b->process_count++ % MAX_PROCESSES] = span_of(rest, 1);
  else if (!strcmp(key, "smoothing")) b->smoothing_pct = atoi(rest);
  else if (!strcmp(key, "virtual")) b->virtual_mode = atoi(rest);
  else if (!strcmp(key, "scope")) b->scope_mw[atoi(rest) % 3] = atoi(strchr(rest, ' '));
  else return 0;
  return 1;
}

static void set(board *b, const char *key, char *rest) {
  if (!strcmp(key, "name")) snprintf(b->name, WORD, "%s", rest);
  else if (!strcmp(key, "mig")) snprintf(b->mig, WORD, "%s", rest);
  else if (!strcmp(key, "unsupported")) add_word(b->unsupported, rest);
  else if (!strcmp(key, "deny")) add_word(b->denied, rest);
  else if (!strcmp(key, "arch")) b->arch = atoi(rest);
  else if (!strcmp(key, "bus")) b->bus = atoi(rest);
  else if (strstr(" constant step square points ", key)) profile(b, key, rest);
  else if (!strcmp(key, "repeat")) b->period_s = atof(rest);
  else if (!strcmp(key, "update_ms")) b->update_s = atof(rest) / 1e3;
  else if (!strcmp(key, "phase_ms")) b->phase_s = atof(rest) / 1e3;
  else if (!strcmp(key, "counter_gain")) b->counter_gain = atof(rest);
  else if (!strcmp(key, "power_gain")) b->power_gain = atof(rest);
  else if (!strcmp(key, "awake")) b->awake_mw = atof(rest);
  else if (!strcmp(key, "reset")) b->reset_s = atof(rest);
  else if (!strcmp(key, "stale")) b->stale_s = atof(rest);
  else if (!strcmp(key, "lost")) b->lost_s = atof(rest);
  else if (!set_state(b, key, rest)) { fprintf(stderr, "fake_nvml: unknown setting %s\n", key); abort(); }
}

static void read_script(void) {
  defaults();
  FILE *script = fopen(getenv("NVML_SCRIPT") ? getenv("NVML_SCRIPT") : "", "r");
  if (!script) return;
  for (char line[4096], key[WORD]; fgets(line, sizeof line, script);) {
    int index, at = 0;
    double number;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "driver %63s", driver) == 1 || sscanf(line, "t0_ns %lld", &t0_ns) == 1) continue;
    if (sscanf(line, "gpus_at %lf %d", &gpus_s, &late_gpus) == 2) continue;
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

/* From the first call on it is this time (CLOCK_MONOTONIC, ns) until the next call says otherwise. */
void fake_nvml_at(long long ns) { told_ns = ns; }

static double now_s(void) {
  struct timespec t;
  if (told_ns >= 0) return (told_ns - t0_ns) / 1e9;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return ((long long)t.tv_sec * 1000000000LL + t.tv_nsec - t0_ns) / 1e9;
}

/* The last update of the board's sensors and counter. */
static double tick_s(const board *b) {
  double update_s = b->update_s > 0 ? b->update_s : quantum_s;
  return floor((now_s() - b->phase_s) / update_s) * update_s + b->phase_s;
}

/* Integral over one pass of the points, from time 0 to t, in mJ. */
static double area_mj(const board *b, double t) {
  const point *p = b->points;
  double sum = 0;
  if (t <= 0) return p[0].mw * t;
  for (int i = 0; i + 1 < b->point_count && t > p[i].at_s; i++) {
    double length = p[i + 1].at_s - p[i].at_s, part = fmin(t, p[i + 1].at_s) - p[i].at_s;
    if (length > 0) sum += part * (p[i].mw + (p[i + 1].mw - p[i].mw) * part / length / 2);
  }
  return sum + fmax(0, t - p[b->point_count - 1].at_s) * p[b->point_count - 1].mw;
}

/* Integral of the profile from time 0 to t: the truth, in mJ. */
static double energy_mj(const board *b, double t) {
  if (b->period_s <= 0) return area_mj(b, t);
  double whole = floor(t / b->period_s);
  return whole * area_mj(b, b->period_s) + area_mj(b, t - whole * b->period_s);
}

static unsigned mean_mw(const board *b, double window_s) {
  double end = tick_s(b);
  return lround(b->power_gain * (energy_mj(b, end) - energy_mj(b, end - window_s)) / window_s);
}

/* What being read costs, shown with the next update. */
static double extra_mj(board *b) {
  double now = now_s(), tick = tick_s(b);
  if (now - b->read_s < 0.5) b->extra_mj += b->awake_mw * (now - b->read_s);
  b->read_s = now;
  if (tick > b->shown_s) b->shown_s = tick, b->shown_extra_mj = b->extra_mj;
  return b->shown_extra_mj;
}

static unsigned long long counter_mj(board *b) {
  double t = fmin(tick_s(b), b->stale_s);
  double since = t >= b->reset_s ? energy_mj(b, b->reset_s) : -COUNTER_OFFSET_MJ / b->counter_gain;
  return (unsigned long long)(b->counter_gain * (energy_mj(b, t) - since) + extra_mj(b));
}

static int within(span s) { return now_s() >= s.from_s && now_s() < s.to_s; }

/* Time for which the clocks were held back for one of these reasons, in ns. */
static unsigned long long throttled_ns(const board *b, unsigned reasons) {
  double s = fmin(now_s(), b->throttle.to_s) - b->throttle.from_s;
  return b->throttle.what & reasons && s > 0 ? (unsigned long long)(s * 1e9) : 0;
}

/* A driver need not survive a fork, and this one does not. */
static int open_here(void) { return users && owner == getpid(); }

static int status(const board *b, const char *what) {
  char word[WORD];
  if (!open_here()) return UNINITIALIZED;
  if (now_s() >= b->lost_s) return LOST;
  snprintf(word, WORD, " %s ", what);
  if (strstr(b->denied, word)) return NO_PERMISSION;
  return strstr(b->unsupported, word) ? NOT_SUPPORTED : SUCCESS;
}

static int copy(char *to, unsigned size, const char *text) {
  if (strlen(text) + 1 > size) return TOO_SMALL;
  strcpy(to, text);
  return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (owner != getpid()) users = 0, owner = getpid();
  read_script();
  if (init_status == SUCCESS) users++;
  return init_status;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return open_here() ? (users--, SUCCESS) : UNINITIALIZED; }
const char *nvmlErrorString(int code) { return code == 28 ? "GPU not found" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { return open_here() ? copy(to, size, driver) : UNINITIALIZED; }
int nvmlDeviceGetCount_v2(unsigned *count) {
  return open_here() ? (*count = now_s() >= gpus_s ? late_gpus : gpus, SUCCESS) : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, board **b) {
  if (index >= (unsigned)gpus) return INVALID_ARGUMENT;
  *b = &boards[index];
  return status(*b, "handle");
}

static void uuid_of(const board *b, char *to) {
  snprintf(to, WORD, "GPU-%08d-0000-0000-0000-000000000000", b->index);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, board **b) {
  for (int i = 0; i < gpus; i++) {
    char own[WORD];
    uuid_of(&boards[i], own);
    if (!strcmp(own, uuid) || (boards[i].mig[0] && !strcmp(boards[i].mig, uuid))) return *b = &boards[i], SUCCESS;
  }
  return NOT_FOUND;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(board *mig, board **b) { return *b = mig, SUCCESS; }

int nvmlDeviceGetName(board *b, char *to, unsigned size) { return copy(to, size, b->name); }
int nvmlDeviceGetUUID(board *b, char *to, unsigned size) {
  char uuid[WORD];
  uuid_of(b, uuid);
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
int nvmlDeviceGetMigMode(board *b, unsigned *current, unsigned *pending) {
  return *current = *pending = b->mig[0] != 0, status(b, "mig");
}
int nvmlDeviceGetVirtualizationMode(board *b, unsigned *mode) { return *mode = b->virtual_mode, status(b, "virtual"); }
int nvmlDeviceGetTemperature(board *b, int sensor, unsigned *c) {
  double fallen = fmin(1, fmax(0, now_s() / b->cooling_s));
  (void)sensor;
  return *c = lround(b->warm_c + (b->cool_c - b->warm_c) * fallen), status(b, "temperature");
}
int nvmlDeviceGetClockInfo(board *b, int clock, unsigned *mhz) {
  return *mhz = clock == 2 ? 3201 : b->throttle.what && within(b->throttle) ? 1410 : 1980, status(b, "clock");
}
int nvmlDeviceGetCurrentClocksEventReasons(board *b, unsigned long long *reasons) {
  return *reasons = within(b->throttle) ? b->throttle.what : 0, status(b, "throttle");
}
int nvmlDeviceGetUtilizationRates(board *b, unsigned *gpu_memory) {
  gpu_memory[0] = 87, gpu_memory[1] = 40;
  return status(b, "utilisation");
}
int nvmlDeviceGetEnforcedPowerLimit(board *b, unsigned *mw) {
  return *mw = now_s() >= b->limit_s ? b->late_limit_mw : b->limit_mw, status(b, "limit");
}
int nvmlDeviceGetPowerManagementDefaultLimit(board *b, unsigned *mw) { return *mw = 700000, status(b, "limit"); }
int nvmlDeviceGetPowerUsage(board *b, unsigned *mw) { return *mw = mean_mw(b, 1.0), status(b, "power_call"); }
int nvmlDeviceGetTotalEnergyConsumption(board *b, unsigned long long *mj) {
  return *mj = counter_mj(b), status(b, "energy_call");
}

int nvmlDeviceGetComputeRunningProcesses_v3(board *b, unsigned *count, process_info *found) {
  unsigned room = *count, running = 0;
  int code = status(b, "processes");
  if (code != SUCCESS) return code;
  for (int i = 0; i < b->process_count && i < MAX_PROCESSES; i++) {
    if (!within(b->processes[i])) continue;
    if (found && running < room) found[running] = (process_info){.pid = b->processes[i].what};
    running++;
  }
  *count = running;
  return running > room || (running && !found) ? TOO_SMALL : SUCCESS;
}

/* Only the first of the server's processes may be looked up, as from inside a container. */
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned room) {
  if (pid != 11) return NOT_SUPPORTED;
  snprintf(name, room, "/opt/vllm/bin/python3");
  return SUCCESS;
}

static int scoped_mean(const board *b, field_value *v) {
  if (v->scope == 0) return v->value.ui = mean_mw(b, 1.0), status(b, "mean");
  if (v->scope > 2 || !b->scope_mw[v->scope]) return NOT_SUPPORTED;
  return v->value.ui = b->scope_mw[v->scope], status(b, "scopes");
}

static int smoothing(const board *b, field_value *v) {
  v->value.ull = v->field == 251 ? 1 : v->field == 260 ? b->smoothing_pct : 0;
  return b->smoothing_pct && v->field != 255 ? status(b, "smoothing") : NOT_SUPPORTED;
}

static void fill(board *b, field_value *v) {
  v->value.ull = 0xDEADBEEF00000000ULL; /* the union's unused half may hold anything */
  v->type = v->field == 185 || v->field == 186 ? 1 : 3;
  switch (v->field) {
    case 74: v->status = status(b, "throttled"), v->value.ull = throttled_ns(b, 4); break;
    case 75: v->status = status(b, "throttled"), v->value.ull = throttled_ns(b, 32 | 64); break;
    case 83: v->status = status(b, "energy"), v->value.ull = counter_mj(b); break;
    case 185: v->status = scoped_mean(b, v); break;
    case 251: case 255: case 260: case 264: v->status = smoothing(b, v); break;
    case 186: v->status = status(b, "instant"), v->value.ui = mean_mw(b, instant_s); break;
    default: v->status = NOT_SUPPORTED;
  }
}

/* How often fields were asked for since the library was loaded. */
static long long field_calls;
long long fake_nvml_field_calls(void) { return field_calls; }

int nvmlDeviceGetFieldValues(board *b, int count, field_value *values) {
  struct timespec t;
  field_calls++;
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
