package store

import (
	"context"
	"time"
)

// Past is implemented by stores that keep changes which are over, beyond what Watch and List need. Use it through
// PastOf.
type Past interface {
	// Oldest returns the oldest revision whose state is kept: lists at it and after it, and watches after it, work. Zero
	// means that no past is kept.
	Oldest() Revision
	// RevisionAt returns the revision that was the newest at a time. It fails with ErrCompacted if the time is before
	// the oldest revision's.
	RevisionAt(ctx context.Context, at time.Time) (Revision, error)
	// Changes returns changes that are kept, by ascending revision.
	Changes(ctx context.Context, q ChangeQuery) ([]Change, error)
	// Next returns the changes of all keys after a revision, by ascending revision: at least one if there is one, and not
	// more than limit. It fails with ErrCompacted if the next one is not kept.
	Next(ctx context.Context, after Revision, limit int) ([]Change, error)
}

// ChangeQuery says which changes to return.
type ChangeQuery struct {
	// Key is the key whose changes are asked for; with Below, all keys that begin with it.
	Key   string
	Below bool
	// After and Until bound the revisions of the changes; Until is included, and zero is the newest.
	After, Until Revision
	// Limit is the maximum number of changes: the last ones are returned. Zero means all.
	Limit int
}

// Change is a change that is kept.
type Change struct {
	Event
	// Created says that the key did not exist before.
	Created bool
	// Forgotten says that what it was has been removed on purpose.
	Forgotten bool
	// Time is when it was made.
	Time time.Time
	// Note is what was kept beside it.
	Note []byte
}

// PastOf returns the past of a store, if it keeps one.
func PastOf(s Store) (Past, bool) {
	t, ok := s.(*transformed)
	if !ok {
		p, ok := s.(Past)
		return p, ok && p.Oldest() > 0
	}
	p, ok := PastOf(t.Store)
	return transformedPast{p, t}, ok
}

// transformedPast decodes the values of a past.
type transformedPast struct {
	Past
	by *transformed
}

func (p transformedPast) Changes(ctx context.Context, q ChangeQuery) ([]Change, error) {
	return p.decoded(p.Past.Changes(ctx, q))
}

func (p transformedPast) Next(ctx context.Context, after Revision, limit int) ([]Change, error) {
	return p.decoded(p.Past.Next(ctx, after, limit))
}

func (p transformedPast) decoded(all []Change, err error) ([]Change, error) {
	for i := range all {
		if !all[i].Forgotten {
			all[i].Event = p.by.event(all[i].Event)
		}
	}
	return all, err
}
