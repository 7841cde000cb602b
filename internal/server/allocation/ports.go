package allocation

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

var errPortTaken = errors.New("provided port is already allocated")

const portsKey = registry.Root + "ranges/servicenodeports"

// portStore is the part of a store that the ports need.
type portStore interface {
	Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...store.Condition) (store.Revision, error)
	Get(ctx context.Context, key string, o store.GetOptions) (store.Entry, error)
	Update(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration) (store.Revision, error)
}

// ports are the allocated node ports: one value in the store.
type ports struct {
	store  portStore
	within PortRange

	mu    sync.Mutex // one change at a time, so that changes of this process do not conflict with each other
	known store.Entry
}

// maxTries bounds the attempts of a change that conflicts with other servers.
const maxTries = 1000

// change calls f to allocate and release ports, and stores the result. f may be called several times, each time with a
// newer set. If it fails with a set that may be old, it is called again with the newest.
func (p *ports) change(ctx context.Context, dryRun bool, f func(*portSet) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := false
	for range maxTries {
		if p.known.Revision == 0 {
			if err := p.readLocked(ctx); err != nil {
				return err
			}
			fresh = true
		}
		set, err := decodePorts(p.known.Value, p.within)
		if err != nil {
			return err
		}
		set.anywhere = dryRun
		err = f(set)
		switch {
		case err != nil && fresh, err == nil && (dryRun || !set.changed):
			return err
		case err == nil:
			if err = p.writeLocked(ctx, set); err == nil {
				return nil
			}
			if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		p.known, fresh = store.Entry{}, false
	}
	return errors.New("too many conflicts with other servers that change the node ports")
}

func (p *ports) readLocked(ctx context.Context) error {
	e, err := p.store.Get(ctx, portsKey, store.GetOptions{})
	if errors.Is(err, store.ErrNotFound) {
		p.known = store.Entry{}
		return nil
	}
	p.known = e
	return err
}

func (p *ports) writeLocked(ctx context.Context, set *portSet) error {
	value, err := set.encode()
	if err != nil {
		return err
	}
	var rev store.Revision
	if p.known.Revision == 0 {
		rev, err = p.store.Create(ctx, portsKey, value, 0)
	} else {
		rev, err = p.store.Update(ctx, portsKey, value, p.known.Revision, 0)
	}
	if err != nil {
		return err
	}
	p.known = store.Entry{Key: portsKey, Value: value, Revision: rev}
	return nil
}

func (p *ports) release(ctx context.Context, all []int32) error {
	return p.change(ctx, false, func(s *portSet) error {
		for _, port := range all {
			s.free(port)
		}
		return nil
	})
}

// count returns how many ports are taken, as far as this server knows.
func (p *ports) count(ctx context.Context) (taken int, err error) {
	err = p.change(ctx, true, func(s *portSet) error {
		taken = len(s.all())
		return nil
	})
	return taken, err
}

// portSet are the allocated ports of a range. Bit i stands for the i-th port.
type portSet struct {
	within  PortRange
	taken   *big.Int
	changed bool
	// anywhere allows ports outside the range. In Kubernetes a dry run does not check the range.
	anywhere bool
}

// decodePorts decodes a stored set. Ports outside the range are dropped.
func decodePorts(value []byte, within PortRange) (*portSet, error) {
	s := &portSet{within: within, taken: new(big.Int)}
	if len(value) == 0 {
		return s, nil
	}
	env, err := protobuf.Open(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", portsKey, err)
	}
	var stored corev1.RangeAllocation
	if err := stored.Unmarshal(env.Raw); err != nil {
		return nil, fmt.Errorf("%s: %w", portsKey, err)
	}
	s.taken.SetBytes(stored.Data)
	if stored.Range == within.String() {
		return s, nil
	}
	var was PortRange
	if _, err := fmt.Sscanf(stored.Range, "%d-%d", &was.First, &was.Last); err != nil {
		return nil, fmt.Errorf("%s has range %q: %w", portsKey, stored.Range, err)
	}
	moved := new(big.Int)
	for port := within.First; port <= within.Last; port++ {
		if was.contains(port) && s.taken.Bit(int(port-was.First)) == 1 {
			moved.SetBit(moved, int(port-within.First), 1)
		}
	}
	s.taken, s.changed = moved, true
	return s, nil
}

func (s *portSet) encode() ([]byte, error) {
	return protobuf.Marshal("v1", "RangeAllocation", &corev1.RangeAllocation{Range: s.within.String(), Data: s.taken.Bytes()})
}

func (s *portSet) has(port int32) bool {
	return s.within.contains(port) && s.taken.Bit(int(port-s.within.First)) == 1
}

func (s *portSet) set(port int32, bit uint) {
	if s.within.contains(port) && s.taken.Bit(int(port-s.within.First)) != bit {
		s.taken.SetBit(s.taken, int(port-s.within.First), bit)
		s.changed = true
	}
}

func (s *portSet) free(port int32) { s.set(port, 0) }

func (s *portSet) take(port int32) error {
	switch {
	case !s.within.contains(port) && !s.anywhere:
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", s.within)
	case s.has(port):
		return errPortTaken
	}
	s.set(port, 1)
	return nil
}

// The lowest ports are used last, because users choose fixed ports there.
const (
	lowestPorts, highestPorts = 16, 128
	lowPortShare              = 32
)

// takeAny allocates any free port.
func (s *portSet) takeAny() (int32, error) {
	n := s.within.size()
	low := 0
	if n > lowestPorts {
		low = min(max(lowestPorts, n/lowPortShare), highestPorts)
	}
	for _, part := range [][2]int{{low, n}, {0, low}} {
		size := part[1] - part[0]
		if size == 0 {
			continue
		}
		start := rand.IntN(size)
		for i := range size {
			if port := s.within.First + int32(part[0]+(start+i)%size); !s.has(port) {
				return port, s.take(port)
			}
		}
	}
	return 0, errFull
}

func (s *portSet) all() []int32 {
	var out []int32
	for i := range s.within.size() {
		if s.taken.Bit(i) == 1 {
			out = append(out, s.within.First+int32(i))
		}
	}
	return out
}

// refresh calls f with the newest state.
func (p *ports) refresh(ctx context.Context, f func(*portSet)) error {
	p.mu.Lock()
	p.known = store.Entry{}
	p.mu.Unlock()
	return p.change(ctx, true, func(s *portSet) error {
		f(s)
		return nil
	})
}
