package etcdfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/millrace/millrace/internal/protobuf"
)

// The kinds of entries, of changes of the cluster's members, and their fields.
const (
	kindRequest, kindMembers = 0, 1

	addMember, removeMember, addLearner = 0, 1, 3

	fieldMembersKind, fieldMembersID = 2, 3
	fieldOldRequestMethod            = 2
)

// apply applies an entry of the log, as etcd does at a start. What etcd has refused is refused here.
func (s *state) apply(c change) error {
	switch {
	case c.kind == kindMembers:
		return s.applyMembers(c.data)
	case c.kind != kindRequest:
		return fmt.Errorf("%w: it is of the unknown kind %d", errLog, c.kind)
	case len(c.data) == 0: // a leader's first entry
		return nil
	}
	if method, ok := protobuf.Last(c.data, fieldOldRequestMethod); ok && method.Bytes != nil {
		return nil // a request of etcd's first API, which has no keys of ours
	}
	var r pb.InternalRaftRequest
	if err := proto.Unmarshal(c.data, &r); err != nil {
		return fmt.Errorf("%w: it is no request: %w", errLog, err)
	}
	if len(r.ProtoReflect().GetUnknown()) > 0 {
		return errors.New("it is a request of a newer etcd, which is not known here")
	}
	return s.request(&r)
}

// applyMembers applies a change of the cluster's members.
func (s *state) applyMembers(b []byte) error {
	var kind, id uint64
	fields := protobuf.Scan(b)
	for fields.Next() {
		switch fields.Number {
		case fieldMembersKind:
			kind = fields.Varint
		case fieldMembersID:
			id = fields.Varint
		}
	}
	switch kind {
	case addMember, addLearner:
		s.members[id] = true
	case removeMember:
		delete(s.members, id)
	}
	return fields.Err()
}

func (s *state) request(r *pb.InternalRaftRequest) error {
	switch {
	case r.AuthEnable != nil:
		s.guarded = true
	case r.AuthDisable != nil:
		s.guarded = false
	case r.Alarm != nil:
		s.applyAlarm(r.Alarm)
	case r.Compaction != nil:
		if rev := r.Compaction.Revision; rev > s.compacted && rev <= s.revision {
			s.compacted = rev
		}
	case r.Put != nil, r.DeleteRange != nil, r.Txn != nil, r.LeaseGrant != nil, r.LeaseRevoke != nil:
		return s.applyChange(r)
	}
	return nil
}

func (s *state) applyAlarm(r *pb.AlarmRequest) {
	switch a := (alarm{r.MemberID, r.Alarm}); r.Action {
	case pb.AlarmRequest_ACTIVATE:
		s.alarms[a] = true
	case pb.AlarmRequest_DEACTIVATE:
		delete(s.alarms, a)
	}
}

// alarmed reports whether any member has raised an alarm.
func (s *state) alarmed(what pb.AlarmType) bool {
	for a := range s.alarms {
		if a.what == what {
			return true
		}
	}
	return false
}

// applyChange applies what changes keys or leases.
func (s *state) applyChange(r *pb.InternalRaftRequest) error {
	if s.alarmed(pb.AlarmType_CORRUPT) {
		return errors.New("etcd has found that its members have different data, and refuses to work")
	}
	if s.guarded {
		return errors.New("etcd's users have to log in, and what each of them may do is not known here: make a snapshot")
	}
	if full := s.alarmed(pb.AlarmType_NOSPACE); full && (r.Put != nil || r.LeaseGrant != nil || r.Txn != nil && puts(r.Txn)) {
		return nil // etcd has refused it
	}
	switch {
	case r.LeaseGrant != nil:
		s.leases[r.LeaseGrant.ID] = true
		return nil
	case r.LeaseRevoke != nil:
		return s.revoke(r.LeaseRevoke.ID)
	case r.Txn != nil:
		return s.transact(r.Txn)
	case r.Put != nil:
		return s.transact(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: r.Put}}}})
	}
	return s.transact(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r.DeleteRange}}}})
}

// puts reports whether a transaction would write, either way.
func puts(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if slices.ContainsFunc(ops, func(op *pb.RequestOp) bool { return op.GetRequestPut() != nil }) {
			return true
		}
	}
	return false
}

// revoke deletes a lease with its keys.
func (s *state) revoke(id int64) error {
	if !s.leases[id] {
		return nil
	}
	delete(s.leases, id)
	n := len(s.entries)
	maps.DeleteFunc(s.entries, func(_ string, e entry) bool { return e.lease == id })
	if len(s.entries) < n {
		s.revision++
	}
	return nil
}

// transact runs a transaction. All its changes get one revision.
func (s *state) transact(r *pb.TxnRequest) error {
	// All conditions are decided before anything is written.
	ops, err := s.decide(r)
	if err != nil {
		return err
	}
	if ok, err := s.possible(ops); err != nil || !ok {
		return err
	}
	changed := false
	for _, op := range ops {
		switch {
		case op.GetRequestPut() != nil:
			if err := s.put(op.GetRequestPut(), s.revision+1); err != nil {
				return err
			}
			changed = true
		case op.GetRequestDeleteRange() != nil:
			d := op.GetRequestDeleteRange()
			for _, key := range s.within(d.Key, d.RangeEnd) {
				delete(s.entries, key)
				changed = true
			}
		}
	}
	if changed {
		s.revision++
	}
	return nil
}

// decide returns what a transaction does, with that of the transactions in it.
func (s *state) decide(r *pb.TxnRequest) (all []*pb.RequestOp, err error) {
	ops := r.Success
	for _, c := range r.Compare {
		holds, err := s.holds(c)
		if err != nil {
			return nil, err
		}
		if !holds {
			ops = r.Failure
			break
		}
	}
	for _, op := range ops {
		inner := op.GetRequestTxn()
		if inner == nil {
			all = append(all, op)
			continue
		}
		more, err := s.decide(inner)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// possible reports whether etcd has not refused any part of a transaction, and with it all of it.
func (s *state) possible(ops []*pb.RequestOp) (bool, error) {
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			if p.Lease != 0 && !s.leases[p.Lease] {
				return false, nil
			}
			if _, exists := s.entries[string(p.Key)]; (p.IgnoreValue || p.IgnoreLease) && !exists {
				return false, nil
			}
		}
		if rev := op.GetRequestRange().GetRevision(); rev > s.revision || rev > 0 && rev < s.compacted {
			return false, nil
		}
	}
	return true, nil
}

// holds reports whether a condition holds: for all keys in its range, or for a key that does not exist.
func (s *state) holds(c *pb.Compare) (bool, error) {
	keys := s.within(c.Key, c.RangeEnd)
	if len(keys) == 0 {
		return c.Target != pb.Compare_VALUE && holdsFor(c, &mvccpb.KeyValue{}), nil
	}
	for _, key := range keys {
		kv, err := s.load(s.entries[key])
		if err != nil || !holdsFor(c, kv) {
			return false, err
		}
	}
	return true, nil
}

func holdsFor(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	var order int
	switch c.Target {
	case pb.Compare_VALUE:
		order = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		order = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		order = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		order = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		order = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_NOT_EQUAL:
		return order != 0
	case pb.Compare_GREATER:
		return order > 0
	case pb.Compare_LESS:
		return order < 0
	}
	return true
}

// put writes a key.
func (s *state) put(p *pb.PutRequest, rev int64) error {
	kv := &mvccpb.KeyValue{Key: p.Key, Value: p.Value, Lease: p.Lease, CreateRevision: rev, ModRevision: rev, Version: 1}
	if old, ok := s.entries[string(p.Key)]; ok {
		before, err := s.load(old)
		if err != nil {
			return err
		}
		kv.CreateRevision, kv.Version = before.CreateRevision, before.Version+1
		if p.IgnoreValue {
			kv.Value = before.Value
		}
		if p.IgnoreLease {
			kv.Lease = before.Lease
		}
	}
	s.entries[string(p.Key)] = entry{revision: rev, lease: kv.Lease, kv: kv}
	return nil
}

// within returns the keys of a range, in any order: one key without an end, and all from a key on if the end is a zero
// byte.
func (s *state) within(from, end []byte) (keys []string) {
	if len(end) == 0 {
		if _, ok := s.entries[string(from)]; ok {
			keys = []string{string(from)}
		}
		return keys
	}
	for key := range s.entries {
		if key >= string(from) && (len(end) == 1 && end[0] == 0 || key < string(end)) {
			keys = append(keys, key)
		}
	}
	return keys
}
