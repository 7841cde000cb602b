package encryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	peer "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	peerbox "k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"
	kmsapi "k8s.io/kms/apis/v2"
)

const key = "/registry/secrets/default/mine"

func resource(key string) (schema.GroupResource, bool) {
	parts := strings.Split(key, "/")
	return schema.ParseGroupResource(parts[2]), true
}

// write writes a configuration of providers for resources.
func write(t *testing.T, path, resources string, providers ...string) {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [" + resources + "]\n  providers: [" + strings.Join(providers, ", ") + "]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func keys(kind string, secrets ...string) string {
	var all []string
	for i, s := range secrets {
		all = append(all, fmt.Sprintf("{name: %s%d, secret: %s}", string(s[0]), i, base64.StdEncoding.EncodeToString([]byte(s))))
	}
	return kind + ": {keys: [" + strings.Join(all, ", ") + "]}"
}

func entry(kind string, secrets ...string) string { return "{" + keys(kind, secrets...) + "}" }

func open(t *testing.T, resources string, providers ...string) *Encryption {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, resources, providers...)
	e, err := Open(t.Context(), Options{File: path, Reload: true, Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

var (
	old = strings.Repeat("a", 32)
	new = strings.Repeat("b", 32)
)

func TestKubernetesCanReadOurValuesAndWeItsValues(t *testing.T) {
	block, err := aes.NewCipher([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	sealedByGCM, err := peer.NewGCMTransformer(block)
	if err != nil {
		t.Fatal(err)
	}
	for kind, theirs := range map[string]value.Transformer{
		"aescbc": peer.NewCBCTransformer(block), "aesgcm": sealedByGCM, "secretbox": peerbox.NewSecretboxTransformer([32]byte([]byte(old))),
	} {
		ours := open(t, "secrets", entry(kind, old))
		prefix := "k8s:enc:" + kind + ":v1:a0:"
		for _, plain := range []string{"", "x", "a secret of some length", strings.Repeat("0123456789abcdef", 100)} {
			stored, err := ours.To(key, []byte(plain))
			if err != nil || !bytes.HasPrefix(stored, []byte(prefix)) || plain != "" && bytes.Contains(stored, []byte(plain)) && len(plain) > 1 {
				t.Fatalf("%s: %q, %v", kind, stored, err)
			}
			got, _, err := theirs.TransformFromStorage(t.Context(), stored[len(prefix):], value.DefaultContext(key))
			if err != nil || string(got) != plain {
				t.Errorf("%s is read as %q, %v", kind, got, err)
			}
			written, err := theirs.TransformToStorage(t.Context(), []byte(plain), value.DefaultContext(key))
			if err != nil {
				t.Fatal(err)
			}
			got, stale, err := ours.From(key, append([]byte(prefix), written...))
			if err != nil || stale || string(got) != plain {
				t.Errorf("%s: theirs is read as %q, %v, %v", kind, got, stale, err)
			}
		}
	}
}

func TestOlderKeysAndProvidersAreReadAndStale(t *testing.T) {
	stored := map[string][]byte{"plain": []byte("text")}
	for kind, provider := range map[string]string{"cbc": entry("aescbc", old), "gcm": entry("aesgcm", old), "box": entry("secretbox", old)} {
		b, err := open(t, "secrets", provider).To(key, []byte("text"))
		if err != nil {
			t.Fatal(err)
		}
		stored[kind] = b
	}
	next := open(t, "secrets", "{aesgcm: {keys: [{name: next, secret: "+base64.StdEncoding.EncodeToString([]byte(new))+"}, {name: a0, secret: "+base64.StdEncoding.EncodeToString([]byte(old))+"}]}}",
		entry("aescbc", old), entry("secretbox", old), "{identity: {}}")
	for kind, b := range stored {
		plain, stale, err := next.From(key, b)
		if string(plain) != "text" || !stale || err != nil {
			t.Errorf("%s: %q, %v, %v", kind, plain, stale, err)
		}
	}
	b, err := next.To(key, []byte("text"))
	if err != nil || !bytes.HasPrefix(b, []byte("k8s:enc:aesgcm:v1:next:")) {
		t.Fatalf("%q, %v", b, err)
	}
	if plain, stale, err := next.From(key, b); string(plain) != "text" || stale || err != nil {
		t.Errorf("%q, %v, %v", plain, stale, err)
	}
}

func TestAWrongKeyAndAMovedValueAreErrors(t *testing.T) {
	for _, kind := range []string{"aesgcm", "secretbox", "aescbc"} {
		e := open(t, "secrets", entry(kind, old))
		b, err := e.To(key, []byte("text"))
		if err != nil {
			t.Fatal(err)
		}
		wrong := open(t, "secrets", strings.Replace(entry(kind, new), "b0", "a0", 1), "{identity: {}}")
		if plain, _, err := wrong.From(key, b); err == nil && string(plain) == "text" {
			t.Errorf("%s is read with another key", kind)
		}
		if kind == "aesgcm" {
			if _, _, err := e.From("/registry/secrets/default/yours", b); err == nil {
				t.Error("a value can take another's place")
			}
		}
		for i := range b {
			if _, _, err := e.From(key, b[:i]); err == nil {
				t.Errorf("%s: a value of %d of %d bytes is read", kind, i, len(b))
			}
		}
		plainly := open(t, "secrets", "{identity: {}}")
		if _, _, err := plainly.From(key, b); err == nil {
			t.Errorf("%s is taken for plain text", kind)
		}
	}
}

func TestResourcesAreChosenByWildcardsInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" +
		"- {resources: [configmaps], providers: [{identity: {}}]}\n" +
		"- {resources: ['*.apps'], providers: [" + entry("aescbc", old) + "]}\n" +
		"- {resources: ['*.'], providers: [" + entry("aesgcm", old) + "]}\n" +
		"- {resources: ['*.*'], providers: [" + entry("secretbox", old) + "]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Options{File: path, Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"configmaps": "x", "deployments.apps": "k8s:enc:aescbc", "secrets": "k8s:enc:aesgcm", "crontabs.example.com": "k8s:enc:secretbox"} {
		b, err := e.To("/registry/"+name+"/a", []byte("x"))
		if err != nil || !bytes.HasPrefix(b, []byte(want)) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestInvalidConfigurationsAreRefusedWithAReason(t *testing.T) {
	for text, want := range map[string]string{
		"": "is not an EncryptionConfiguration",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n":       "at least one is required",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nx: 1\n": "unknown field",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	for _, c := range []struct{ resources, provider, want string }{
		{"secrets, secrets", "{identity: {}}", "multiple times"},
		{"secrets, '*.'", "{identity: {}}", "masked"},
		{"Secrets", "{identity: {}}", "capital"},
		{"'*'", "{identity: {}}", "use '*.'"},
		{"secrets.extensions", "{identity: {}}", "extensions"},
		{"secrets", "{}", "does not contain any"},
		{"secrets", "{identity: {}, " + keys("aescbc", old) + "}", "more than one provider"},
		{"secrets", entry("aescbc", "short"), "got 5, expected one of [16 24 32]"},
		{"secrets", entry("secretbox", old[:16]), "got 16, expected one of [32]"},
		{"secrets", "{aesgcm: {keys: [{name: a, secret: '!'}]}}", "base64"},
		{"secrets", "{kms: {name: a, endpoint: 'unix:///x'}}", "only v2"},
		{"secrets", "{kms: {apiVersion: v2, name: 'a:b', endpoint: 'unix:///x'}}", "must not contain"},
		{"secrets", "{kms: {apiVersion: v2, name: a, endpoint: 'tcp://x'}}", "only unix"},
	} {
		write(t, path, c.resources, c.provider)
		if _, err := Open(t.Context(), Options{File: path}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.resources, c.provider, err)
		} else if strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte("short"))) {
			t.Errorf("a secret is shown: %v", err)
		}
	}
}

func TestAChangedFileIsUsedUnlessItIsInvalid(t *testing.T) {
	e := open(t, "secrets", entry("aescbc", old))
	write(t, e.o.File, "secrets", entry("nonsense", old))
	e.reload(t.Context())
	if b, err := e.To(key, []byte("x")); err != nil || !bytes.HasPrefix(b, []byte("k8s:enc:aescbc:v1:a0:")) {
		t.Errorf("%q, %v", b, err)
	}
	write(t, e.o.File, "secrets", entry("aesgcm", new), entry("aescbc", old))
	e.reload(t.Context())
	if b, err := e.To(key, []byte("x")); err != nil || !bytes.HasPrefix(b, []byte("k8s:enc:aesgcm:v1:b0:")) {
		t.Errorf("%q, %v", b, err)
	}
}

// plugin is a KMS plugin that encrypts by XOR with a key that can be changed.
type plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	key      atomic.Pointer[string]
	decrypts atomic.Int32
}

func (p *plugin) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: *p.key.Load()}, nil
}

func xor(b []byte, key string) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= key[i%len(key)]
	}
	return out
}

func (p *plugin) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	id := *p.key.Load()
	return &kmsapi.EncryptResponse{Ciphertext: xor(r.Plaintext, id), KeyId: id, Annotations: map[string][]byte{"made.example.com": []byte("here")}}, nil
}

func (p *plugin) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	p.decrypts.Add(1)
	if string(r.Annotations["made.example.com"]) != "here" {
		return nil, fmt.Errorf("the annotations are %v", r.Annotations)
	}
	return &kmsapi.DecryptResponse{Plaintext: xor(r.Ciphertext, r.KeyId)}, nil
}

// servePlugin serves a plugin on a socket until the test ends.
func servePlugin(t *testing.T) (p *plugin, endpoint string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "kms") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	l, err := net.Listen("unix", filepath.Join(directory, "s"))
	if err != nil {
		t.Fatal(err)
	}
	p = &plugin{}
	first := "first"
	p.key.Store(&first)
	server := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(server, p)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p, "unix://" + filepath.Join(directory, "s")
}

func TestAPluginMayChangeItsKey(t *testing.T) {
	p, endpoint := servePlugin(t)
	provider := "{kms: {apiVersion: v2, name: mine, endpoint: '" + endpoint + "'}}"
	e := open(t, "secrets", provider)
	first, err := e.To(key, []byte("text"))
	if err != nil || !bytes.HasPrefix(first, []byte("k8s:enc:kms:v2:mine:")) {
		t.Fatalf("%q, %v", first, err)
	}
	// decoded as kube-apiserver does
	sealed, err := decodeEnvelope(first[len("k8s:enc:kms:v2:mine:"):])
	if err != nil || sealed.kind != extended || sealed.keyID != "first" {
		t.Fatalf("%+v, %v", sealed, err)
	}
	theirs, err := peer.NewHKDFExtendedNonceGCMTransformer(xor(sealed.source, "first"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, _, err := theirs.TransformFromStorage(t.Context(), sealed.data, value.DefaultContext(key)); err != nil || string(plain) != "text" {
		t.Errorf("%q, %v", plain, err)
	}
	second := "second"
	p.key.Store(&second)
	if err := e.current.Load().kms[0].refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if plain, stale, err := e.From(key, first); string(plain) != "text" || !stale || err != nil {
		t.Errorf("%q, %v, %v", plain, stale, err)
	}
	if p.decrypts.Load() != 0 {
		t.Error("the plugin was asked for what is known")
	}
	restarted := open(t, "secrets", provider)
	for range 3 {
		if plain, _, err := restarted.From(key, first); string(plain) != "text" || err != nil {
			t.Errorf("%q, %v", plain, err)
		}
	}
	if n := p.decrypts.Load(); n != 1 {
		t.Errorf("the plugin was asked %d times for one seed", n)
	}
}

func TestAPluginThatDoesNotAnswerIsAnErrorAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, "secrets", "{kms: {apiVersion: v2, name: mine, endpoint: 'unix:///nowhere/at/all', timeout: 1s}}")
	if _, err := Open(t.Context(), Options{File: path, Resource: resource}); err == nil || !strings.Contains(err.Error(), "kms mine") {
		t.Error(err)
	}
}

func FuzzStoredBytes(f *testing.F) {
	c := &config{}
	for _, kind := range []string{"aescbc", "aesgcm"} {
		f.Add([]byte("k8s:enc:" + kind + ":v1:k:0123456789abcdef0123456789abcdef"))
	}
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: ['*.*'], providers: [" +
		entry("aescbc", old) + ", " + entry("aesgcm", old) + ", " + entry("secretbox", old) + ", {identity: {}}]}]"
	c, err := compile(context.Background(), []byte(text))
	if err != nil {
		f.Fatal(err)
	}
	e := &Encryption{o: Options{Resource: resource}}
	e.current.Store(c)
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, _, err := e.From(key, b)
		if err == nil && !bytes.HasPrefix(b, []byte(encrypted)) && !bytes.Equal(plain, b) {
			t.Errorf("%q is read as %q", b, plain)
		}
		_, _ = decodeEnvelope(b)
	})
}

func FuzzConfiguration(f *testing.F) {
	f.Add([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{identity: {}}]}]"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parse(b) })
}

func BenchmarkProviders(b *testing.B) {
	plain := make([]byte, 1024)
	_, _ = rand.Read(plain)
	for kind, make := range map[string]func([]byte) (sealer, error){"aescbc": newCBC, "aesgcm": newGCM, "secretbox": newBox} {
		s, err := make([]byte(old))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				sealed, err := s.seal(key, plain)
				if err == nil {
					_, err = s.open(key, sealed)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
