package storage

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/encryption"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
)

// encrypted wraps the store as the options say.
func (s *Storage) encrypted(ctx context.Context, l *assembly.List) (store.Store, error) {
	if s.o.EncryptionFile == "" {
		return s.Store, nil
	}
	e, err := encryption.Open(ctx, encryption.Options{File: s.o.EncryptionFile, Reload: s.o.ReloadEncryption, Resource: resourceOfKeys(), Logger: s.o.Logger})
	if err != nil {
		return nil, err
	}
	l.Opened("encryption", e.Close)
	l.Run("encryption configuration", e.Run)
	return store.Transform(s.Store, e), nil
}

// resourceOfKeys returns a function that finds the resource of a key: built-in kinds have Kubernetes' keys, all others
// their group and resource.
func resourceOfKeys() func(key string) (schema.GroupResource, bool) {
	builtIn := map[string]schema.GroupResource{}
	for _, k := range builtin.Kinds() {
		builtIn[k.Prefix] = k.GroupResource()
	}
	return func(key string) (schema.GroupResource, bool) {
		rest, ok := strings.CutPrefix(key, registry.Root)
		if !ok {
			return schema.GroupResource{}, false
		}
		first, rest, _ := strings.Cut(rest, "/")
		if gr, ok := builtIn[first]; ok {
			return gr, true
		}
		second, _, _ := strings.Cut(rest, "/")
		if gr, ok := builtIn[first+"/"+second]; ok {
			return gr, true
		}
		return schema.GroupResource{Group: first, Resource: second}, strings.Contains(first, ".")
	}
}
