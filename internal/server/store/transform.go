package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Transformer changes values on their way to a store and back, for example by encryption. Its methods may be called
// from any goroutine and must not modify the value they are given. The key is passed so that it can be authenticated
// with the value: then the value of one key cannot be moved to another.
type Transformer interface {
	To(key string, value []byte) ([]byte, error)
	// From reverses To. Stale says that To would now produce something else, so that the entry should be written again.
	From(key string, value []byte) (plain []byte, stale bool, err error)
}

// Transform puts t between callers and s. If t is nil, it returns s itself.
//
// A value that From cannot read affects its own key only. Get and conflicts fail with an UnreadableError; pages and
// batches contain the key with an UnreadableError instead of its value. Delete works as for any other key.
func Transform(s Store, t Transformer) Store {
	if t == nil {
		return s
	}
	return &transformed{Store: s, t: t}
}

type transformed struct {
	Store
	t Transformer
}

func (s *transformed) Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...Condition) (Revision, error) {
	value, err := s.t.To(key, value)
	if err != nil {
		return 0, fmt.Errorf("create %s: transform: %w", key, err)
	}
	return s.Store.Create(ctx, key, value, ttl, conditions...)
}

func (s *transformed) Update(ctx context.Context, key string, value []byte, expect Revision, ttl time.Duration) (Revision, error) {
	value, err := s.t.To(key, value)
	if err != nil {
		return 0, fmt.Errorf("update %s: transform: %w", key, err)
	}
	rev, err := s.Store.Update(ctx, key, value, expect, ttl)
	return rev, s.conflict(err)
}

func (s *transformed) Delete(ctx context.Context, key string, expect Revision) (Revision, error) {
	rev, err := s.Store.Delete(ctx, key, expect)
	return rev, s.conflict(err)
}

func (s *transformed) Get(ctx context.Context, key string, o GetOptions) (Entry, error) {
	e, err := s.Store.Get(ctx, key, o)
	if err != nil {
		return Entry{}, err
	}
	if e = s.entry(e); e.Unreadable != nil {
		return Entry{}, fmt.Errorf("get %s: %w", key, e.Unreadable)
	}
	return e, nil
}

func (s *transformed) List(ctx context.Context, prefix string, o ListOptions) (Page, error) {
	page, err := s.Store.List(ctx, prefix, o)
	if err != nil {
		return Page{}, err
	}
	page.Entries = slices.Clone(page.Entries)
	for i, e := range page.Entries {
		page.Entries[i] = s.entry(e)
	}
	return page, nil
}

func (s *transformed) Watch(ctx context.Context, prefix string, after Revision, sink func(Batch) error) error {
	return s.Store.Watch(ctx, prefix, after, func(b Batch) error {
		b.Events = slices.Clone(b.Events)
		for i, e := range b.Events {
			b.Events[i] = s.event(e)
		}
		return sink(b)
	})
}

// event decodes the value of an event.
func (s *transformed) event(e Event) Event {
	if e.Type == Put {
		now := s.entry(Entry{Key: e.Key, Value: e.Value, Revision: e.Revision})
		e.Value, e.Unreadable = now.Value, now.Unreadable
	}
	return e
}

// entry decodes the value of an entry that the store returned.
func (s *transformed) entry(e Entry) Entry {
	plain, stale, err := s.t.From(e.Key, e.Value)
	if err != nil {
		return Entry{Key: e.Key, Revision: e.Revision, Unreadable: &UnreadableError{Key: e.Key, Revision: e.Revision, Err: err}}
	}
	e.Value, e.Stale = plain, stale
	return e
}

// conflict decodes the entry that a ConflictError carries.
func (s *transformed) conflict(err error) error {
	var found *ConflictError
	if !errors.As(err, &found) {
		return err
	}
	current := s.entry(found.Current)
	if current.Unreadable != nil {
		return fmt.Errorf("%s: %w", found.Key, current.Unreadable)
	}
	return &ConflictError{Key: found.Key, Want: found.Want, Current: current}
}
