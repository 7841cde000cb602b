package registry

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/server/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// deleteCorrupt deletes an object that cannot be read, because its value cannot be decrypted or decoded. Admission
// steps are not called, and its finalizers are unknown. The answer contains no object.
func (s *Storage) deleteCorrupt(ctx context.Context, key, name string, dryRun bool) (*Deleted, error) {
	for range maxTries {
		rev, err := s.corruptRevision(ctx, key, name)
		if err != nil {
			return nil, err
		}
		gone := &Deleted{Gone: true}
		if dryRun {
			return gone, nil
		}
		_, err = s.registry.Store.Delete(ctx, key, rev)
		switch {
		case err == nil:
			return gone, nil
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrUnreadable):
			continue // another request has written it meanwhile
		}
		return nil, statusOf(err, s.kind.GroupResource(), name)
	}
	return nil, conflict(s.kind.GroupResource(), name)
}

// corruptRevision returns the revision of an object that cannot be read. It refuses an object that can be read.
func (s *Storage) corruptRevision(ctx context.Context, key, name string) (store.Revision, error) {
	e, err := s.registry.Store.Get(ctx, key, store.GetOptions{})
	var unreadable *store.UnreadableError
	switch {
	case errors.As(err, &unreadable):
		return unreadable.Revision, nil
	case err != nil:
		return 0, statusOf(err, s.kind.GroupResource(), name)
	}
	if _, err := s.decode(ctx, e); err != nil {
		return e.Revision, nil
	}
	return 0, apierrors.NewConflict(s.kind.GroupResource(), name, errors.New("StorageError: invalid object, Code: 4, Key: "+key+
		", ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"))
}
