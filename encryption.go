package millrace

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/encryption"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
)

// EncryptionOptions configure encryption at rest. Without a file nothing is encrypted.
type EncryptionOptions struct {
	// File is an EncryptionConfiguration of apiserver.config.k8s.io/v1. With Reload it is reloaded when it changes.
	File   string
	Reload bool
}

// encrypted wraps the store as the options say.
func (c *Cluster) encrypted(ctx context.Context, s store.Store) (store.Store, error) {
	o := c.options.Encryption
	if o.File == "" {
		return s, nil
	}
	e, err := encryption.Open(ctx, encryption.Options{File: o.File, Reload: o.Reload, Resource: resourceOfKeys(), Logger: c.options.Logger})
	if err != nil {
		return nil, err
	}
	c.opened("encryption", e.Close)
	c.run("encryption configuration", e.Run)
	return store.Transform(s, e), nil
}

// resourceOfKeys returns a function that finds the resource of a key: built-in kinds have Kubernetes' keys, all others their
// group and resource.
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
