package watchcache

import (
	"iter"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
)

// Snapshot is the state of a kind right after a revision. It never changes, and may be used from any goroutine.
type Snapshot struct {
	state *tree
	rev   store.Revision
}

// Revision returns the revision whose state it is.
func (s Snapshot) Revision() store.Revision { return s.rev }

// Len returns the number of objects.
func (s Snapshot) Len() int {
	if s.state == nil {
		return 0
	}
	return s.state.len()
}

// Get returns the object with a key.
func (s Snapshot) Get(key string) (*Object, bool) {
	if s.state == nil {
		return nil, false
	}
	o := s.state.get(key)
	return o, o != nil
}

// Range yields the objects whose keys begin with prefix and are greater than after, by ascending key. An empty after
// excludes nothing.
func (s Snapshot) Range(prefix, after string) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		if s.state == nil {
			return
		}
		s.state.ascend(start(prefix, after), func(o *Object) bool {
			return strings.HasPrefix(o.Key, prefix) && yield(o)
		})
	}
}

// CountRange returns how many objects Range would yield, without visiting them.
func (s Snapshot) CountRange(prefix, after string) int {
	if s.state == nil {
		return 0
	}
	end := s.state.len()
	if after := successor(prefix); after != "" {
		end = s.state.rank(after)
	}
	return max(0, end-s.state.rank(start(prefix, after)))
}

// start returns the smallest key that a range may contain.
func start(prefix, after string) string {
	if after == "" || after < prefix {
		return prefix
	}
	return after + "\x00"
}

// successor returns the first key after all keys that begin with prefix; it is empty if there is none.
func successor(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
