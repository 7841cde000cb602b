package encryption

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"
)

const (
	seedSize = 32
	infoSize = 32
	// maxSeeds bounds how many decrypted seeds are cached.
	maxSeeds = 1000
)

// kms is a provider whose key is held by a plugin. The plugin encrypts a seed; the key of each value is derived from
// the seed.
type kms struct {
	name       string
	timeout    time.Duration
	connection *grpc.ClientConn
	plugin     kmsapi.KeyManagementServiceClient
	writing    atomic.Pointer[sealedSeed]

	mu    sync.Mutex // guards seeds
	seeds map[[sha256.Size]byte][]byte
}

// sealedSeed is the seed for new values.
type sealedSeed struct {
	keyID       string
	seed        []byte
	sealed      []byte
	annotations map[string][]byte
}

// openKMS connects to a plugin and makes a seed.
func openKMS(ctx context.Context, c *kmsConfig) (*kms, error) {
	connection, err := grpc.NewClient(c.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	k := &kms{name: c.Name, timeout: c.timeout(), connection: connection, plugin: kmsapi.NewKeyManagementServiceClient(connection), seeds: map[[sha256.Size]byte][]byte{}}
	if err := k.refresh(ctx); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *kms) close() { _ = k.connection.Close() }

// refresh makes a new seed if the plugin's key has changed.
func (k *kms) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	status, err := k.plugin.Status(ctx, &kmsapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	switch {
	case status.Version != "v2" && status.Version != "v2beta1":
		return fmt.Errorf("the plugin uses version %q, not v2", status.Version)
	case status.Healthz != "ok":
		return fmt.Errorf("the plugin is not healthy: %q", status.Healthz)
	case status.KeyId == "":
		return errors.New("the plugin returned no key ID")
	}
	if now := k.writing.Load(); now != nil && now.keyID == status.KeyId {
		return nil
	}
	next := &sealedSeed{seed: make([]byte, seedSize)}
	if _, err := rand.Read(next.seed); err != nil {
		return err
	}
	answer, err := k.plugin.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: next.seed, Uid: newUID()})
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	next.keyID, next.sealed, next.annotations = answer.KeyId, answer.Ciphertext, answer.Annotations
	if next.keyID == "" || len(next.sealed) == 0 {
		return errors.New("encrypt: the plugin's answer is empty")
	}
	k.keep(next.keyID, next.sealed, next.seed)
	k.writing.Store(next)
	return nil
}

func newUID() string { return rand.Text() }

func (k *kms) mark() string { return encrypted + "kms:v2:" + k.name + ":" }

func (k *kms) to(path string, plain []byte) ([]byte, error) {
	now := k.writing.Load()
	info := make([]byte, infoSize)
	if _, err := rand.Read(info); err != nil {
		return nil, err
	}
	key, err := derive(now.seed, info)
	if err != nil {
		return nil, err
	}
	sealed, err := key.sealAfter(info, path, plain)
	if err != nil {
		return nil, err
	}
	return (&envelope{data: sealed, keyID: now.keyID, source: now.sealed, annotations: now.annotations, kind: extended}).encode([]byte(k.mark())), nil
}

func (k *kms) from(path string, body []byte) (plain []byte, stale bool, err error) {
	e, err := decodeEnvelope(body)
	if err != nil {
		return nil, false, err
	}
	seed, err := k.seed(e)
	if err != nil {
		return nil, false, err
	}
	var key gcm
	sealed := e.data
	switch e.kind {
	case direct:
		made, err := newGCM(seed)
		if err != nil {
			return nil, false, err
		}
		key = made.(gcm)
	case extended:
		if len(sealed) < infoSize {
			return nil, false, errWrong
		}
		if key, err = derive(seed, sealed[:infoSize]); err != nil {
			return nil, false, err
		}
		sealed = sealed[infoSize:]
	default:
		return nil, false, fmt.Errorf("a value of KMS v2 has the unknown encryption type %d", e.kind)
	}
	plain, err = key.open(path, sealed)
	now := k.writing.Load()
	return plain, e.kind == direct || now == nil || e.keyID != now.keyID, err
}

// derive returns the key of one value.
func derive(seed, info []byte) (gcm, error) {
	key, err := hkdf.Expand(sha256.New, seed, string(info), 32)
	if err != nil {
		return gcm{}, err
	}
	s, err := newGCM(key)
	if err != nil {
		return gcm{}, err
	}
	return s.(gcm), nil
}

// seed returns the decrypted seed of a value, from the cache if possible.
func (k *kms) seed(e *envelope) ([]byte, error) {
	at := placeOf(e.keyID, e.source)
	k.mu.Lock()
	seed, ok := k.seeds[at]
	k.mu.Unlock()
	if ok {
		return seed, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.timeout)
	defer cancel()
	answer, err := k.plugin.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: e.source, KeyId: e.keyID, Annotations: e.annotations, Uid: newUID()})
	if err != nil {
		return nil, fmt.Errorf("failed to decrypt DEK, error: %w", err)
	}
	k.keep(e.keyID, e.source, answer.Plaintext)
	return answer.Plaintext, nil
}

func (k *kms) keep(keyID string, sealed, seed []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seeds) >= maxSeeds {
		clear(k.seeds)
	}
	k.seeds[placeOf(keyID, sealed)] = bytes.Clone(seed)
}

func placeOf(keyID string, sealed []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(keyID+"\x00"), sealed...))
}
