package credentialplugins

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kubelet/config/v1"
	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// runTime bounds one run of a plugin, and mostKept how many answers of it are kept.
const (
	runTime  = time.Minute
	mostKept = 1024
)

// plugin is one plugin and its answers.
type plugin struct {
	configv1.CredentialProvider
	path  string
	asked singleflight.Group

	mu   sync.Mutex
	kept map[string]answer // guarded by mu: by what the answer depends on
}

// question is what a plugin is asked.
type question struct {
	image       string
	token       string
	annotations map[string]string
	// who is what the answer depends on besides the image.
	who string
}

// addAccount adds the annotations of a service account that a plugin wants.
func (q *question) addAccount(account *corev1.ServiceAccount, t *configv1.ServiceAccountTokenAttributes) error {
	q.annotations = map[string]string{}
	for _, key := range t.RequiredServiceAccountAnnotationKeys {
		value, ok := account.Annotations[key]
		if !ok {
			return fmt.Errorf("required annotation %s not found in service account %s/%s", key, account.Namespace, account.Name)
		}
		q.annotations[key] = value
	}
	for _, key := range t.OptionalServiceAccountAnnotationKeys {
		if value, ok := account.Annotations[key]; ok {
			q.annotations[key] = value
		}
	}
	who := []string{account.Namespace, account.Name, string(account.UID)}
	for _, key := range slices.Sorted(maps.Keys(q.annotations)) {
		who = append(who, key, q.annotations[key])
	}
	if t.CacheType == configv1.TokenServiceAccountTokenCacheType {
		who = append(who, q.token)
	}
	q.who = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", who)))
	return nil
}

// keys are the names under which an answer to the question may be kept.
func (q *question) keys() map[credentialv1.PluginCacheKeyType]string {
	return map[credentialv1.PluginCacheKeyType]string{
		credentialv1.ImagePluginCacheKeyType:    "image " + q.image + " " + q.who,
		credentialv1.RegistryPluginCacheKeyType: "registry " + registry(q.image) + " " + q.who,
		credentialv1.GlobalPluginCacheKeyType:   "global " + q.who,
	}
}

// answer is what a plugin has said.
type answer struct {
	logins   map[string]credentialv1.AuthConfig
	patterns []string // of the logins, in the order in which they are tried
	until    time.Time
}

// answer returns a kept answer, or runs the plugin.
func (p *plugin) answer(ctx context.Context, q *question, now func() time.Time) (answer, error) {
	keys := q.keys()
	if a, ok := p.find(keys, now()); ok {
		return a, nil
	}
	got, err, _ := p.asked.Do(keys[credentialv1.ImagePluginCacheKeyType]+q.token, func() (any, error) {
		if a, ok := p.find(keys, now()); ok {
			return a, nil
		}
		response, err := p.run(context.WithoutCancel(ctx), q)
		if err != nil {
			return nil, err
		}
		key, ok := keys[response.CacheKeyType]
		if !ok {
			return nil, fmt.Errorf("credential provider plugin did not return a valid cacheKeyType: %q", response.CacheKeyType)
		}
		a := answer{logins: response.Auth, patterns: slices.SortedFunc(maps.Keys(response.Auth), order)}
		lasts := p.DefaultCacheDuration.Duration
		if response.CacheDuration != nil {
			lasts = response.CacheDuration.Duration
		}
		if lasts > 0 {
			a.until = now().Add(lasts)
			p.keep(key, a, now())
		}
		return a, nil
	})
	if err != nil {
		return answer{}, err
	}
	return got.(answer), nil
}

func (p *plugin) find(keys map[credentialv1.PluginCacheKeyType]string, now time.Time) (answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		if a, ok := p.kept[key]; ok && now.Before(a.until) {
			return a, true
		}
	}
	return answer{}, false
}

func (p *plugin) keep(key string, a answer, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.kept, func(_ string, old answer) bool { return !now.Before(old.until) })
	if len(p.kept) >= mostKept {
		clear(p.kept)
	}
	p.kept[key] = a
}

// run runs the program: the request is its input, the response its output.
func (p *plugin) run(ctx context.Context, q *question) (*credentialv1.CredentialProviderResponse, error) {
	request, err := json.Marshal(&credentialv1.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: p.APIVersion, Kind: "CredentialProviderRequest"},
		Image:    q.image, ServiceAccountToken: q.token, ServiceAccountAnnotations: q.annotations,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	var out, problems bytes.Buffer
	c := exec.CommandContext(ctx, p.path, p.Args...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(request), &out, &problems
	c.WaitDelay = time.Second // a child of the plugin may keep the pipes open
	c.Env = os.Environ()
	for _, v := range p.Env {
		c.Env = append(c.Env, v.Name+"="+v.Value)
	}
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("exec plugin %s: %w: %s", p.path, err, shortened(problems.Bytes()))
	}
	response := &credentialv1.CredentialProviderResponse{}
	if err := json.Unmarshal(out.Bytes(), response); err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", p.path, err)
	}
	if response.Kind != "CredentialProviderResponse" || response.APIVersion != p.APIVersion {
		return nil, fmt.Errorf("the response of %s is a %s of %s, not a CredentialProviderResponse of %s", p.path, response.Kind, response.APIVersion, p.APIVersion)
	}
	return response, nil
}

// shortened returns the beginning of what a plugin has written.
func shortened(text []byte) string { return string(text[:min(len(text), 1<<10)]) }
