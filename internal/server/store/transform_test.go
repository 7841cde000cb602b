package store_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

// sealer encrypts with AES-GCM and authenticates the key. Values of an older generation are stale.
type sealer struct {
	aead       cipher.AEAD
	generation byte
}

func newSealer(t *testing.T) *sealer {
	block, err := aes.NewCipher([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return &sealer{aead: aead, generation: 1}
}

func (s *sealer) To(key string, value []byte) ([]byte, error) {
	return s.aead.Seal([]byte{s.generation}, nil, value, []byte(key)), nil
}

func (s *sealer) From(key string, value []byte) ([]byte, bool, error) {
	if len(value) == 0 {
		return nil, false, errors.New("not sealed")
	}
	plain, err := s.aead.Open(nil, nil, value[1:], []byte(key))
	return plain, value[0] != s.generation, err
}

func TestTransformedStoreKeepsTheGuaranteesOfAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return store.Transform(memory.New(memory.Options{}), newSealer(t))
	})
}

func TestTransformerStandsBetweenCallersAndStore(t *testing.T) {
	ctx := t.Context()
	inner, seal := memory.New(memory.Options{}), newSealer(t)
	s := store.Transform(inner, seal)
	secret := []byte(rand.Text())
	rev, err := s.Create(ctx, "/a", secret, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := inner.Get(ctx, "/a", store.GetOptions{})
	if err != nil || bytes.Contains(raw.Value, secret) {
		t.Errorf("the store holds %q, %v", raw.Value, err)
	}
	e, err := s.Get(ctx, "/a", store.GetOptions{})
	if err != nil || !bytes.Equal(e.Value, secret) || e.Stale {
		t.Errorf("entry is %+v, %v", e, err)
	}
	seal.generation++
	_, err = s.Update(ctx, "/a", secret, rev+1, 0)
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !bytes.Equal(conflict.Current.Value, secret) || !conflict.Current.Stale {
		t.Errorf("conflict is %v", err)
	}
	if page, err := s.List(ctx, "/", store.ListOptions{}); err != nil || !page.Entries[0].Stale {
		t.Errorf("page is %+v, %v", page, err)
	}
}

func TestValueThatCannotBeDecodedAffectsOnlyItsKey(t *testing.T) {
	ctx := t.Context()
	inner := memory.New(memory.Options{})
	s := store.Transform(inner, newSealer(t))
	start, err := inner.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, "/good", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	good, err := inner.Get(ctx, "/good", store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rev, err := inner.Create(ctx, "/moved", good.Value, 0) // the value of another key
	if err != nil {
		t.Fatal(err)
	}
	var unreadable *store.UnreadableError
	if _, err := s.Get(ctx, "/moved", store.GetOptions{}); !errors.As(err, &unreadable) || unreadable.Revision != rev {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Update(ctx, "/moved", nil, rev-1, 0); !errors.Is(err, store.ErrUnreadable) {
		t.Errorf("conflict: %v", err)
	}
	page, err := s.List(ctx, "/", store.ListOptions{})
	if err != nil || string(page.Entries[0].Value) != "x" || page.Entries[1].Unreadable == nil || page.Entries[1].Value != nil {
		t.Errorf("page is %+v, %v", page, err)
	}
	if events := firstEvents(t, s, start); len(events) != 2 || string(events[0].Value) != "x" || events[1].Unreadable == nil || events[1].Value != nil {
		t.Errorf("events are %+v", events)
	}
	if _, err := s.Delete(ctx, "/moved", rev); err != nil {
		t.Errorf("delete: %v", err)
	}
}

var errEnough = errors.New("enough")

// firstEvents returns the events of the first batch that has any.
func firstEvents(t *testing.T, s store.Store, after store.Revision) (events []store.Event) {
	t.Helper()
	err := s.Watch(t.Context(), "/", after, func(b store.Batch) error {
		if events = append(events, b.Events...); len(events) > 1 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	return events
}

func TestWithoutATransformerTheStoreItselfIsReturned(t *testing.T) {
	s := memory.New(memory.Options{})
	if store.Transform(s, nil) != store.Store(s) {
		t.Error("there is something in between")
	}
}
