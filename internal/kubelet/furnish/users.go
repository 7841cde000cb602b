package furnish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// podUsers is how many users a pod with a user namespace has: as many as images count on.
const podUsers = 1 << 16

// usersFile is the file in a pod's directory with the pod's users, with Kubernetes' name and content. The users are the
// pod's for as long as its directory is there, so a kubelet that starts again gives them to nobody else.
const usersFile = "userns"

// mappings are the content of a usersFile.
type mappings struct {
	UIDs []mapping `json:"uidMappings"`
	GIDs []mapping `json:"gidMappings"`
}

type mapping struct {
	Host   uint32 `json:"hostId"`
	Pod    uint32 `json:"containerId"`
	Length uint32 `json:"length"`
}

// users returns the users of a pod's user namespace, and gives it some if it has none. Without a user namespace it
// returns nil.
func (f *Furnisher) users(pod *corev1.Pod) (*container.IDs, error) {
	if !container.OwnUsers(pod) {
		return nil, nil
	}
	f.giving.Lock()
	defer f.giving.Unlock()
	taken, err := f.takenUsers()
	if err != nil {
		return nil, err
	}
	uid := string(pod.UID)
	for id, owner := range taken {
		if owner == uid {
			return &container.IDs{First: id * podUsers, Length: podUsers}, nil
		}
	}
	pool, err := f.userPool()
	if err != nil {
		return nil, err
	}
	for _, id := range pool {
		if _, is := taken[id]; !is {
			return &container.IDs{First: id * podUsers, Length: podUsers}, f.writeUsers(uid, id)
		}
	}
	return nil, &container.NoUserNamespaces{Problem: "all users of this node are given to other pods"}
}

func (f *Furnisher) writeUsers(uid string, id uint32) error {
	all := []mapping{{Host: id * podUsers, Length: podUsers}}
	text, err := json.Marshal(mappings{UIDs: all, GIDs: all})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.podDirectory(uid), 0o750); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(f.podDirectory(uid), usersFile), text, 0o600)
}

// takenUsers returns the pods that have users, by the number of their 65536. While a file cannot be read nobody is
// given any: they might be another's.
func (f *Furnisher) takenUsers() (map[uint32]string, error) {
	files, err := filepath.Glob(filepath.Join(f.Root, "pods", "*", usersFile))
	if err != nil {
		return nil, err
	}
	taken := map[uint32]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		var m mappings
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err == nil && !m.valid() {
			err = errors.New("no range of 65536 users and the same groups")
		}
		if err != nil {
			return nil, fmt.Errorf("read the users of pods: %s: %w", path, err)
		}
		taken[m.UIDs[0].Host/podUsers] = filepath.Base(filepath.Dir(path))
	}
	return taken, nil
}

func (m *mappings) valid() bool {
	if len(m.UIDs) != 1 || len(m.GIDs) != 1 || m.UIDs[0] != m.GIDs[0] {
		return false
	}
	one := m.UIDs[0]
	return one.Host > 0 && one.Host%podUsers == 0 && one.Pod == 0 && one.Length == podUsers
}

// userRange is a range of users that the machine has set aside for somebody.
type userRange struct {
	name          string
	first, length uint64
}

// mostUserPods is how many pods can have a user namespace where the machine sets no users aside for the kubelet.
const mostUserPods = 1024

// userPool returns the numbers of the 65536 that pods may have: those that the machine sets aside for the user kubelet,
// or else those from 65536 on that it has not set aside for anybody else.
func (f *Furnisher) userPool() ([]uint32, error) {
	var own, others []userRange
	for _, path := range []string{f.subUsers, f.subGroups} {
		all, err := readRanges(path)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			if r.name == "kubelet" {
				own = append(own, r)
			} else {
				others = append(others, r)
			}
		}
	}
	var pool []uint32
	switch {
	case len(own) == 0:
		for id := uint32(1); len(pool) < mostUserPods && id < 1<<15; id++ {
			if !overlap(others, id) {
				pool = append(pool, id)
			}
		}
	case len(own) != 2 || own[0] != own[1] || own[0].first%podUsers != 0 || own[0].first == 0 || own[0].first+own[0].length > 1<<32:
		return nil, &container.NoUserNamespaces{Problem: "the user kubelet must have one range in /etc/subuid and the same in /etc/subgid, from a multiple of 65536 on"}
	default:
		for id := own[0].first / podUsers; (id+1)*podUsers <= own[0].first+own[0].length; id++ {
			pool = append(pool, uint32(id))
		}
	}
	return pool, nil
}

func overlap(all []userRange, id uint32) bool {
	first := uint64(id) * podUsers
	for _, r := range all {
		if first < r.first+r.length && r.first < first+podUsers {
			return true
		}
	}
	return false
}

// readRanges reads a file such as /etc/subuid: lines of a name, a first user and a number of users.
func readRanges(path string) ([]userRange, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []userRange
	for line := range strings.Lines(string(text)) {
		words := strings.Split(strings.TrimSpace(line), ":")
		if len(words) != 3 {
			continue
		}
		first, wrong := strconv.ParseUint(words[1], 10, 32)
		length, bad := strconv.ParseUint(words[2], 10, 33)
		if wrong != nil || bad != nil {
			return nil, fmt.Errorf("read %s: %q is no range of users", path, strings.TrimSpace(line))
		}
		all = append(all, userRange{words[0], first, length})
	}
	return all, nil
}
