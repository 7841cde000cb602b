package kubelet

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/kubelet/config"
	"github.com/millrace/millrace/internal/kubelet/pressure"
)

// evictionFlags are the flags for shortages of a node.
type evictionFlags struct {
	hard, soft, grace, reclaim []string
	holds                      time.Duration
	mostGrace                  int
}

func (e *evictionFlags) add(fl *pflag.FlagSet) {
	AddEviction(fl, &e.hard)
	fl.StringSliceVar(&e.soft, "eviction-soft", nil, "thresholds below which pods are evicted after --eviction-soft-grace-period")
	fl.StringSliceVar(&e.grace, "eviction-soft-grace-period", nil, "how long each soft threshold must have been crossed: memory.available=90s")
	fl.StringSliceVar(&e.reclaim, "eviction-minimum-reclaim", nil, "how much more than a threshold must be available before evictions end: nodefs.available=500Mi")
	fl.IntVar(&e.mostGrace, "eviction-max-pod-grace-period", 0, "longest grace period, in seconds, of pods that are evicted for a soft threshold; a negative one means the pods' own")
	fl.DurationVar(&e.holds, "eviction-pressure-transition-period", 5*time.Minute, "how long a pressure condition stays after the shortage has ended")
}

// take takes what no flag says from the file.
func (e *evictionFlags) take(t taking, file *config.File) {
	hard := file.EvictionHard
	if merge := file.MergeDefaultEvictionSettings; merge != nil && *merge && len(hard) > 0 {
		hard = pressure.Default().Words()
		maps.Copy(hard, file.EvictionHard)
	}
	takeAll(t, "eviction-hard", &e.hard, pairs(hard, "<"))
	takeAll(t, "eviction-soft", &e.soft, pairs(file.EvictionSoft, "<"))
	takeAll(t, "eviction-soft-grace-period", &e.grace, pairs(file.EvictionSoftGracePeriod, "="))
	takeAll(t, "eviction-minimum-reclaim", &e.reclaim, pairs(file.EvictionMinimumReclaim, "="))
	take(t, "eviction-max-pod-grace-period", &e.mostGrace, int(file.EvictionMaxPodGracePeriod))
	take(t, "eviction-pressure-transition-period", &e.holds, file.EvictionPressureTransitionPeriod.Duration)
}

// pairs formats a map as the value of a flag.
func pairs(words map[string]string, between string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(words)) {
		all = append(all, key+between+words[key])
	}
	return all
}

// Split is the opposite of pairs. A list that is not given is nil.
func Split(flag string, all []string, between string) (map[string]string, error) {
	if len(all) == 0 {
		return nil, nil
	}
	words := map[string]string{}
	for _, pair := range all {
		key, value, ok := strings.Cut(pair, between)
		if !ok {
			return nil, fmt.Errorf("--%s: %q is not signal%samount", flag, pair, between)
		}
		words[key] = value
	}
	return words, nil
}

// AddEviction adds the flag for hard thresholds.
func AddEviction(fl *pflag.FlagSet, to *[]string) {
	fl.StringSliceVar(to, "eviction-hard", nil, "thresholds such as memory.available<100Mi or nodefs.available<10%, below which pods are evicted (default: Kubernetes')")
}

// thresholds reads what was given to a flag for thresholds; nil if nothing was.
func thresholds(flag string, given []string, between string) (pressure.Thresholds, error) {
	words, err := Split(flag, given, between)
	if err != nil || words == nil {
		return nil, err
	}
	all, err := pressure.Parse(words)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return all, nil
}

func (e *evictionFlags) options(o *kubelet.Options) error {
	for _, one := range []struct {
		flag, between string
		words         []string
		to            *pressure.Thresholds
	}{
		{"eviction-hard", "<", e.hard, &o.Eviction.Hard}, {"eviction-soft", "<", e.soft, &o.Eviction.Soft}, {"eviction-minimum-reclaim", "=", e.reclaim, &o.Eviction.Reclaim},
	} {
		var err error
		if *one.to, err = thresholds(one.flag, one.words, one.between); err != nil {
			return err
		}
	}
	grace, err := Split("eviction-soft-grace-period", e.grace, "=")
	if err == nil {
		err = o.Eviction.SetGrace(grace)
	}
	o.PressureHolds, o.EvictionGrace = e.holds, time.Duration(e.mostGrace)*time.Second
	return err
}

// limitFlags are the flags that limit the kubelet itself, and processes of containers.
type limitFlags struct {
	pulls, pullBurst   int
	events, eventBurst int
	pids               int64
	oomScore           int
	requests, period   time.Duration
	plugins, programs  string
}

func (l *limitFlags) add(fl *pflag.FlagSet) {
	fl.IntVar(&l.pulls, "registry-qps", 5, "how many image pulls begin in a second, after a burst; 0: any number. Further ones wait")
	fl.IntVar(&l.pullBurst, "registry-burst", 10, "number of image pulls that may begin at once")
	fl.IntVar(&l.events, "event-qps", 50, "how many events are written in a second, after a burst; 0: any number. Further ones wait")
	fl.IntVar(&l.eventBurst, "event-burst", 100, "number of events that are written at once")
	fl.Int64Var(&l.pids, "pod-max-pids", -1, "how many processes each container of a pod may have; -1: any number")
	fl.IntVar(&l.oomScore, "oom-score-adj", -999, "oom_score_adj of the kubelet, from -1000 to 1000")
	fl.DurationVar(&l.requests, "runtime-request-timeout", 2*time.Minute, "how long requests to the container runtime may take, except those that pull images")
	fl.DurationVar(&l.period, "cpu-cfs-quota-period", 100*time.Millisecond, "period in which limits of CPU time apply, from 1ms to 1s")
	fl.StringVar(&l.plugins, "image-credential-provider-config", "", "file with a CredentialProviderConfig, or directory of such: plugins that have the credentials of registries")
	fl.StringVar(&l.programs, "image-credential-provider-bin-dir", "", "directory with the programs of --image-credential-provider-config")
}

func (l *limitFlags) take(t taking, file *config.File) {
	number := func(n int32) int { return int(n) }
	takePointer(t, "registry-qps", &l.pulls, file.RegistryPullQPS, number)
	take(t, "registry-burst", &l.pullBurst, int(file.RegistryBurst))
	takePointer(t, "event-qps", &l.events, file.EventRecordQPS, number)
	take(t, "event-burst", &l.eventBurst, int(file.EventBurst))
	takePointer(t, "oom-score-adj", &l.oomScore, file.OOMScoreAdj, number)
	if n := file.PodPidsLimit; n != nil {
		take(t, "pod-max-pids", &l.pids, *n)
	}
	take(t, "runtime-request-timeout", &l.requests, file.RuntimeRequestTimeout.Duration)
	if p := file.CPUCFSQuotaPeriod; p != nil {
		take(t, "cpu-cfs-quota-period", &l.period, p.Duration)
	}
}

func (l *limitFlags) options(o *kubelet.Options) error {
	for flag, n := range map[string]int{"registry-qps": l.pulls, "registry-burst": l.pullBurst, "event-qps": l.events, "event-burst": l.eventBurst} {
		if n < 0 {
			return fmt.Errorf("--%s %d must not be a negative number", flag, n)
		}
	}
	switch {
	case l.oomScore < -1000 || l.oomScore > 1000:
		return fmt.Errorf("--oom-score-adj %d must be between -1000 and 1000", l.oomScore)
	case l.period < time.Millisecond || l.period > time.Second:
		return fmt.Errorf("--cpu-cfs-quota-period %v must be between 1ms and 1s", l.period)
	case l.requests <= 0:
		return fmt.Errorf("--runtime-request-timeout %v must be positive", l.requests)
	case (l.plugins == "") != (l.programs == ""):
		return fmt.Errorf("--image-credential-provider-config and --image-credential-provider-bin-dir must be set together")
	}
	o.PullRate, o.PullBurst, o.PIDs, o.RequestTime, o.CPUPeriod = l.pulls, l.pullBurst, max(l.pids, 0), l.requests, l.period
	o.CredentialPlugins, o.CredentialPrograms = l.plugins, l.programs
	return nil
}

// protect sets how readily the kernel ends this process when memory is short.
func (l *limitFlags) protect(log *slog.Logger) {
	if runtime.GOOS != "linux" {
		return
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(l.oomScore)), 0o600); err != nil {
		log.Warn("the kernel may end this process as readily as others when memory is short", "oom-score-adj", l.oomScore, "err", err)
	}
}
