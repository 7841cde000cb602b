package doctor

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// wantedFree is how much of the disk should be free: the log, its copy when it is compacted, and the history.
	wantedFree = 2 << 30
	// fewFiles is a limit of open files that a few thousand watchers reach: each connection is one.
	fewFiles = 4096
	// fewInstances is a limit that several kubelets, container runtimes and desktops reach.
	fewInstances = 512
)

// ofSystem are the checks of this system.
var ofSystem = []check{
	{"free space", machine.space},
	{"open files", machine.files},
	{"clock", machine.clock},
	{"kernel", machine.kernel},
	{"cgroups", machine.cgroups},
	{"inotify", machine.inotify},
}

func (m machine) space() []finding {
	if m.data == "memory" {
		return nil
	}
	var s unix.Statfs_t
	at := m.existing()
	if err := unix.Statfs(at, &s); err != nil {
		return []finding{{unusual, fmt.Sprintf("%s: %v", at, err), ""}}
	}
	free := s.Bavail * uint64(s.Bsize)
	what := fmt.Sprintf("%.1f GiB at %s", float64(free)/(1<<30), at)
	if free < wantedFree {
		return []finding{{unusual, what, "a cluster with its history may need 2 GiB: --history-size limits it"}}
	}
	return []finding{{fine, what, ""}}
}

func (m machine) files() []finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return []finding{{unusual, err.Error(), ""}}
	}
	what := fmt.Sprintf("at most %d", l.Max) // Go raises the soft limit to it
	if l.Max < fewFiles {
		return []finding{{unusual, what, "each connection is one: raise it with ulimit -Hn, or LimitNOFILE= of systemd"}}
	}
	return []finding{{fine, what, ""}}
}

// clock tells whether somebody keeps the clock right: certificates, tokens and leases of several machines need it.
func (m machine) clock() []finding {
	var t unix.Timex // it sets nothing
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return []finding{{unusual, fmt.Sprintf("it is not known whether it is synchronized (%v)", err), ""}}
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return []finding{{unusual, "it is not synchronized", "with several machines, run chrony or systemd-timesyncd on each"}}
	}
	return []finding{{fine, "synchronized", ""}}
}

// kernel tells what real nodes need of it.
func (m machine) kernel() []finding {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return []finding{{unusual, err.Error(), ""}}
	}
	found := []finding{{fine, unix.ByteSliceToString(u.Release[:]), ""}}
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return append(found, finding{unusual, "it has no nftables", "real nodes need them for services and network policies"})
	}
	unix.Close(s)
	return found
}

// cgroups tells whether real nodes can limit containers.
func (m machine) cgroups() []finding {
	text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return []finding{{unusual, "version 2 is not mounted at /sys/fs/cgroup", "real nodes need it; hollow ones do not"}}
	}
	there := strings.Fields(string(text))
	var missing []string
	for _, name := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return []finding{{unusual, "version 2, without " + strings.Join(missing, ", "), "real nodes need them; hollow ones do not"}}
	}
	return []finding{{fine, "version 2, with " + strings.Join(there, " "), ""}}
}

func (m machine) inotify() []finding {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil
	}
	what := fmt.Sprintf("at most %d instances for a user", n)
	if n < fewInstances {
		return []finding{{unusual, what, "with many containers, set fs.inotify.max_user_instances=8192 with sysctl"}}
	}
	return []finding{{fine, what, ""}}
}
