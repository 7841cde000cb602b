package etcdfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/millrace/millrace/internal/protobuf"
)

// The fields of mvccpb.KeyValue that are needed of every version of every key.
const (
	fieldKey   = 1
	fieldMod   = 3
	fieldLease = 6
)

// readDatabase reads the newest state that a database has.
func readDatabase(f io.ReaderAt, size int64, m *meter) (*state, error) {
	p, err := openPages(f, size, m)
	if err != nil {
		return nil, err
	}
	buckets, err := p.buckets()
	if err != nil {
		return nil, err
	}
	s := newState(f)
	// The order of the buckets is that of their meaning: keys first, then what says how far they are.
	for _, b := range []struct {
		name string
		read func(element) error
	}{
		{"key", s.readKey}, {"meta", s.readMeta}, {"lease", s.readLease}, {"alarm", s.readAlarm}, {"members", s.readMember}, {"auth", s.readAuth},
	} {
		t, ok := buckets[b.name]
		if !ok { // an etcd that was killed at its first start may not have all of them
			continue
		}
		if err := t.walk(b.read); err != nil {
			return nil, fmt.Errorf("bucket %q: %w", b.name, err)
		}
	}
	s.revision = max(s.revision, s.compacted) // if all that was written since has been deleted, and that is compacted
	if _, ok := buckets["key"]; !ok && len(buckets) > 0 && s.index > 0 {
		return nil, fmt.Errorf("%w: it has no keys", errDatabase)
	}
	return s, nil
}

// revisionSize is the size of a revision: its number (8 bytes), a sign, and a number within it (8). Another sign follows
// if the key was deleted.
const revisionSize = 17

func revisionOf(b []byte) (rev int64, deleted, ok bool) {
	deleted = len(b) == revisionSize+1 && b[revisionSize] == 't'
	if len(b) != revisionSize && !deleted || b[8] != '_' {
		return 0, false, false
	}
	rev = int64(binary.BigEndian.Uint64(b))
	return rev, deleted, rev > 0
}

// readKey reads a version of a key. Newer ones come after it.
func (s *state) readKey(e element) error {
	rev, deleted, ok := revisionOf(e.key)
	if !ok {
		return fmt.Errorf("%w: %x is no revision", errDatabase, e.key)
	}
	var key []byte
	var mod, lease int64
	fields := protobuf.Scan(e.value)
	for fields.Next() {
		switch fields.Number {
		case fieldKey:
			key = fields.Bytes
		case fieldMod:
			mod = int64(fields.Varint)
		case fieldLease:
			lease = int64(fields.Varint)
		}
	}
	if err := fields.Err(); err != nil || len(key) == 0 || mod != rev && !deleted {
		return fmt.Errorf("%w: the key and value of revision %d at byte %d cannot be read", errDatabase, rev, e.at)
	}
	s.revision = rev
	if deleted {
		delete(s.entries, string(key))
		return nil
	}
	s.entries[string(key)] = entry{revision: rev, lease: lease, at: e.at, size: uint32(len(e.value))}
	return nil
}

// readMeta reads how far the database is.
func (s *state) readMeta(e element) error {
	switch string(e.key) {
	case "consistent_index":
		if len(e.value) != 8 {
			return fmt.Errorf("%w: its index has %d bytes", errDatabase, len(e.value))
		}
		s.index = binary.BigEndian.Uint64(e.value)
	case "scheduledCompactRev", "finishedCompactRev":
		rev, _, ok := revisionOf(e.value)
		if !ok {
			return fmt.Errorf("%w: %x is no revision", errDatabase, e.value)
		}
		s.compacted = max(s.compacted, rev)
	}
	return nil
}

func (s *state) readLease(e element) error {
	if len(e.key) != 8 {
		return fmt.Errorf("%w: %x is no lease", errDatabase, e.key)
	}
	s.leases[int64(binary.BigEndian.Uint64(e.key))] = true
	return nil
}

func (s *state) readAlarm(e element) error {
	var m pb.AlarmMember
	if err := proto.Unmarshal(e.key, &m); err != nil {
		return fmt.Errorf("%w: %x is no alarm", errDatabase, e.key)
	}
	s.alarms[alarm{m.MemberID, m.Alarm}] = true
	return nil
}

func (s *state) readMember(e element) error {
	id, err := strconv.ParseUint(string(e.key), 16, 64)
	if err != nil {
		return fmt.Errorf("%w: %q is no member", errDatabase, e.key)
	}
	s.members[id] = true
	return nil
}

func (s *state) readAuth(e element) error {
	s.guarded = s.guarded || string(e.key) == "authEnabled" && len(e.value) == 1 && e.value[0] == 1
	return nil
}

// load returns the key, the value and the numbers of an entry.
func (s *state) load(e entry) (*mvccpb.KeyValue, error) {
	if e.kv != nil {
		return e.kv, nil
	}
	b := make([]byte, e.size)
	if _, err := s.file.ReadAt(b, e.at); err != nil {
		return nil, err
	}
	kv := &mvccpb.KeyValue{}
	if err := proto.Unmarshal(b, kv); err != nil {
		return nil, fmt.Errorf("%w: the key and value of revision %d at byte %d cannot be read: %w", errDatabase, e.revision, e.at, err)
	}
	return kv, nil
}
