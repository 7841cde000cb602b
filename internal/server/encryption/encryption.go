package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configures encryption. File and Resource are required.
type Options struct {
	// File is the path of an EncryptionConfiguration.
	File string
	// Reload says to follow changes of the file.
	Reload bool
	// Resource returns the resource that is stored under a key; if it returns false, the value is not encrypted.
	Resource func(key string) (schema.GroupResource, bool)
	Logger   *slog.Logger
}

// Encryption is a store.Transformer.
type Encryption struct {
	o       Options
	current atomic.Pointer[config]
	// Used only by Run, and afterwards by Close:
	read    string // the text of the current configuration, or of an invalid one
	retired *config
}

// config is a compiled configuration. Only its cache of chains changes.
type config struct {
	rules  []rule
	kms    []*kms
	chains sync.Map // schema.GroupResource -> chain
}

type rule struct {
	resources []schema.GroupResource
	chain     chain
}

// reloadEvery is how often the file is read, and plugins are asked for their current key.
const reloadEvery = 10 * time.Second

// Open reads the configuration and connects to its plugins, which must answer.
func Open(ctx context.Context, o Options) (*Encryption, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Encryption{o: o}
	text, err := os.ReadFile(o.File)
	if err != nil {
		return nil, fmt.Errorf("encryption: %w", err)
	}
	c, err := compile(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("encryption: %s: %w", o.File, err)
	}
	e.read = string(text)
	e.current.Store(c)
	return e, nil
}

// Run asks plugins for their keys and follows the file, until ctx ends.
func (e *Encryption) Run(ctx context.Context) error {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for _, k := range e.current.Load().kms {
			if err := k.refresh(ctx); err != nil {
				e.o.Logger.Warn("a KMS plugin does not answer", "provider", k.name, "error", err)
			}
		}
		if e.o.Reload {
			e.reload(ctx)
		}
	}
}

// reload reads the file and uses it if it has changed. An invalid file is reported once.
func (e *Encryption) reload(ctx context.Context) {
	text, err := os.ReadFile(e.o.File)
	if err == nil && string(text) == e.read {
		return
	}
	var next *config
	if err == nil {
		e.read = string(text)
		next, err = compile(ctx, text)
	}
	if err != nil {
		e.o.Logger.Error("the changed encryption configuration is invalid: the previous one stays in use", "file", e.o.File, "error", err)
		return
	}
	if e.retired != nil {
		e.retired.close()
	}
	// Calls in progress may still need the old plugins.
	e.retired = e.current.Swap(next)
	e.o.Logger.Info("the encryption configuration was read again", "file", e.o.File)
}

// Close closes the connections to plugins. Nothing can be encrypted or decrypted afterwards.
func (e *Encryption) Close() error {
	e.current.Load().close()
	if e.retired != nil {
		e.retired.close()
	}
	return nil
}

// To implements store.Transformer.
func (e *Encryption) To(key string, value []byte) ([]byte, error) {
	if c := e.chain(key); c != nil {
		return c.to(key, value)
	}
	return value, nil
}

// From implements store.Transformer.
func (e *Encryption) From(key string, value []byte) (plain []byte, stale bool, err error) {
	if c := e.chain(key); c != nil {
		return c.from(key, value)
	}
	return identity{}.from(key, value)
}

// chain returns the providers for a key of the store; nil if its value is not encrypted.
func (e *Encryption) chain(key string) chain {
	gr, ok := e.o.Resource(key)
	if !ok {
		return nil
	}
	c := e.current.Load()
	if found, ok := c.chains.Load(gr); ok {
		return found.(chain)
	}
	found := c.find(gr)
	c.chains.Store(gr, found)
	return found
}

// find returns the providers of the first rule that covers a resource.
func (c *config) find(gr schema.GroupResource) chain {
	for _, r := range c.rules {
		for _, wide := range r.resources {
			if covers(wide, gr) {
				return r.chain
			}
		}
	}
	return nil
}

func (c *config) close() {
	for _, k := range c.kms {
		k.close()
	}
}

// compile compiles a configuration. All its plugins must answer.
func compile(ctx context.Context, text []byte) (c *config, err error) {
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	c = &config{}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	for i, r := range parsed.Resources {
		next := rule{}
		for _, name := range r.Resources {
			next.resources = append(next.resources, schema.ParseGroupResource(strings.TrimSuffix(name, ".")))
		}
		for j, p := range r.Providers {
			made, err := c.provider(ctx, p)
			if err != nil {
				return c, fmt.Errorf("resources[%d].providers[%d].%w", i, j, err)
			}
			next.chain = append(next.chain, made)
		}
		c.rules = append(c.rules, next)
	}
	return c, nil
}

// provider makes a provider; the configuration must name exactly one.
func (c *config) provider(ctx context.Context, p providerConfig) (made provider, err error) {
	var given int
	for _, is := range []bool{p.AESCBC != nil, p.AESGCM != nil, p.Secretbox != nil, p.Identity != nil, p.KMS != nil} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, errors.New("provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity")
	case given > 1:
		return nil, errors.New("more than one provider specified in a single element, should split into different list elements")
	case p.AESCBC != nil:
		return newKeyed("aescbc", p.AESCBC, newCBC, 16, 24, 32)
	case p.AESGCM != nil:
		return newKeyed("aesgcm", p.AESGCM, newGCM, 16, 24, 32)
	case p.Secretbox != nil:
		return newKeyed("secretbox", p.Secretbox, newBox, 32)
	case p.Identity != nil:
		return identity{}, nil
	}
	if err := p.KMS.check(); err != nil {
		return nil, fmt.Errorf("kms: %w", err)
	}
	k, err := openKMS(ctx, p.KMS)
	if err != nil {
		return nil, fmt.Errorf("kms %s: %w", p.KMS.Name, err)
	}
	c.kms = append(c.kms, k)
	return k, nil
}
