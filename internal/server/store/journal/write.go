package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// write is a change that somebody waits for.
type write struct {
	memory.Change
	check func() error // whether the present state allows it
	needs []string     // other keys whose state check reads
	note  []byte       // what is kept beside the change
	fresh bool         // the key does not exist before

	done     chan struct{} // closed when the rest is set
	revision store.Revision
	err      error
}

func newWrite(key string) *write {
	return &write{Change: memory.Change{Key: key}, done: make(chan struct{})}
}

func (w *write) finish(rev store.Revision, err error) {
	w.revision, w.err = rev, err
	close(w.done)
}

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...store.Condition) (store.Revision, error) {
	w := newWrite(key)
	w.Value, w.Expires, w.fresh = bytes.Clone(value), timeOf(ttl), true
	for _, c := range conditions {
		w.needs = append(w.needs, c.Key)
	}
	w.check = func() error { return s.state.CheckCreate(key, conditions) }
	return s.write(ctx, w, "create")
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration) (store.Revision, error) {
	w := newWrite(key)
	w.Value, w.Expires = bytes.Clone(value), timeOf(ttl)
	w.check = func() error { return s.state.CheckExpected(key, expect) }
	return s.write(ctx, w, "update")
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string, expect store.Revision) (store.Revision, error) {
	w := newWrite(key)
	w.Deleted = true
	w.check = func() error { return s.state.CheckExpected(key, expect) }
	return s.write(ctx, w, "delete")
}

func (s *Store) write(ctx context.Context, w *write, what string) (store.Revision, error) {
	err := ctx.Err()
	if most := s.state.MaxValueBytes(); err == nil && len(w.Value) > most {
		err = fmt.Errorf("%d bytes, at most %d: %w", len(w.Value), most, store.ErrTooLarge)
	}
	if err == nil {
		if s.options.Note != nil {
			w.note = s.options.Note(ctx)
		}
		err = s.enqueue(w)
	}
	if err == nil {
		select {
		case <-w.done:
			err = w.err
		case <-ctx.Done(): // it may still be done
			err = ctx.Err()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", what, w.Key, err)
	}
	return w.revision, nil
}

// enqueue hands a write to the committer.
func (s *Store) enqueue(w *write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	s.waiting = append(s.waiting, w)
	s.wakeLocked()
	return nil
}

func (s *Store) wakeLocked() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// A group ends after this many writes or bytes, so that nobody waits for a sync of much more than the own write.
const (
	maxGroupWrites = 1000
	maxGroupBytes  = 4 << 20
)

// commit makes all writes, a group at a time, until ctx ends. It alone changes the state.
func (s *Store) commit(ctx context.Context) {
	for {
		select {
		case <-s.work:
		case <-ctx.Done():
			s.group() // refuses what is left
			return
		}
		s.commitWaiting()
	}
}

func (s *Store) commitWaiting() {
	for group := s.group(); len(group) > 0; group = s.group() {
		s.commitGroup(group)
	}
}

// refuseLocked answers the writes that are left when the store has ended.
func (s *Store) refuseLocked() {
	finishAll(s.waiting, s.ended)
	s.waiting = nil
}

// group takes the writes that are made together, in their order. Each is checked against the state before the group, so
// a write waits for the next group if one before it changes its key, or a key that it needs.
func (s *Store) group() []*write {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		s.refuseLocked()
		return nil
	}
	var group, later []*write
	changes := make(map[string]bool)
	size := 0
	for i, w := range s.waiting {
		if len(group) >= maxGroupWrites || size >= maxGroupBytes {
			later = append(later, s.waiting[i:]...)
			break
		}
		blocked := changes[w.Key]
		for _, key := range w.needs {
			blocked = blocked || changes[key]
		}
		changes[w.Key] = true
		if blocked {
			later = append(later, w)
			continue
		}
		group = append(group, w)
		size += len(w.Key) + len(w.Value)
	}
	s.waiting = later
	return group
}

// commitGroup checks the writes of a group, writes those that are allowed to the disk, and then shows them.
func (s *Store) commitGroup(group []*write) {
	rev, err := s.state.Revision(context.Background())
	allowed, deletes := group[:0], true
	for _, w := range group {
		refusal := err
		if refusal == nil {
			refusal = w.check()
		}
		if refusal != nil {
			w.finish(0, refusal)
			continue
		}
		allowed = append(allowed, w)
		deletes = deletes && w.Deleted
	}
	if len(allowed) == 0 {
		return
	}
	switch err := s.log(allowed, rev, deletes); {
	case err == nil:
	case errors.Is(err, store.ErrNoSpace):
		s.withoutSpace(allowed, err)
		return
	default:
		s.lose(err)
		finishAll(allowed, err)
		return
	}
	changes := make([]memory.Change, len(allowed))
	for i, w := range allowed {
		changes[i] = w.Change
	}
	if err := s.state.Apply(changes); err != nil {
		s.lose(err) // cannot happen: all were checked
	}
	for i, w := range allowed {
		w.finish(rev+store.Revision(i)+1, nil)
	}
}

func finishAll(writes []*write, err error) {
	for _, w := range writes {
		w.finish(0, err)
	}
}

// withoutSpace refuses the writes of a group that need space, and then makes its deletes. If there were only deletes,
// it refuses them: not even they have space.
func (s *Store) withoutSpace(group []*write, err error) {
	var deletes []*write
	for _, w := range group {
		if w.Deleted {
			deletes = append(deletes, w)
		}
	}
	if len(deletes) == len(group) {
		finishAll(group, err)
		return
	}
	for _, w := range group {
		if !w.Deleted {
			w.finish(0, err)
		}
	}
	if len(deletes) > 0 {
		s.commitGroup(deletes)
	}
}

// log appends a group to the log.
func (s *Store) log(group []*write, rev store.Revision, deletes bool) error {
	now := s.now()
	changes := make([]change, len(group))
	for i, w := range group {
		changes[i] = change{
			key: w.Key, value: w.Value, deleted: w.Deleted, revision: rev + store.Revision(i) + 1, expires: w.Expires, time: now, note: w.note,
			created: w.fresh,
		}
	}
	records, spans := s.codec.appendGroup(nil, s.segment.salt, rev+1, changes)
	began, err := s.makeRoom(rev+1, len(records), deletes)
	if began {
		records, spans = s.codec.appendGroup(records[:0], s.segment.salt, rev+1, changes)
	}
	if err == nil {
		err = s.append(records)
	}
	if errors.Is(err, store.ErrNoSpace) {
		s.setFull(err)
	}
	if err == nil {
		places := placesOf(s.segment.source, s.segment.at-int64(len(records)), spans)
		for i, p := range places {
			group[i].Place = p
		}
		s.remember(changes, places)
		s.appended += int64(len(records))
	}
	s.demandSnapshot(s.Writable() != nil)
	return err
}

// now returns the time of the next changes. It never goes back, so that a time stands for one revision.
func (s *Store) now() time.Time {
	if now := time.Now(); now.After(s.lastTime) {
		s.lastTime = now
	}
	return s.lastTime
}

// remember notes changes of the log for those who ask for the past.
func (s *Store) remember(changes []change, places []memory.Place) {
	if n := len(changes); n > 0 && s.keepsPast() {
		s.past.add(changes, places)
	}
}

// demandSnapshot demands a snapshot if the log has grown enough. On a full disk a smaller one will do: it makes room.
func (s *Store) demandSnapshot(full bool) {
	least := max(s.options.SnapshotBytes, s.snapshotBytes.Load())
	if full {
		least = 1
	}
	if s.appended < least {
		return
	}
	s.appended = 0
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

// makeRoom begins another segment if records do not fit into this one. On a full disk records of deletes may use what
// is reserved for them.
func (s *Store) makeRoom(first store.Revision, bytes int, deletes bool) (began bool, err error) {
	if s.segment.room(bytes, false) {
		s.setFull(nil)
		return false, nil
	}
	if s.begins {
		if err := s.segment.sync(); err != nil {
			return false, err
		}
	}
	needed := int64(headBytes + bytes)
	next, err := newSegment(s.dir, first, max(s.options.SegmentBytes, needed+needed/8))
	if err == nil {
		s.segment = next
		s.sources.add(next.source)
		s.setFull(nil)
		return true, nil
	}
	if errors.Is(err, store.ErrNoSpace) && deletes && s.segment.room(bytes, true) {
		s.setFull(err)
		return false, nil
	}
	return false, err
}

func (s *Store) setFull(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = err
}

// lose ends a store whose disk can no longer be relied on.
func (s *Store) lose(err error) {
	err = fmt.Errorf("the log in %s is lost: %w", s.options.Dir, err)
	s.mu.Lock()
	ended := s.ended != nil
	if !ended {
		s.ended = err
		s.wakeLocked() // what waits is refused
	}
	s.mu.Unlock()
	if ended {
		return
	}
	s.options.Logger.Error("the log is lost; only a new start can go on", "err", err)
	if s.options.Lost != nil {
		s.options.Lost(err)
	}
}
