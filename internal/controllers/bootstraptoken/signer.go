package bootstraptoken

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Signer signs cluster-info with all signing tokens.
var Signer = loop.Entry{Name: signerName, Aliases: []string{"bootstrapsigner"}, OffByDefault: true, New: newSigner}

type signer struct {
	kube       kubernetes.Interface
	now        func() time.Time
	tokens     *informer.Shared[*corev1.Secret]
	configMaps *informer.Shared[*corev1.ConfigMap]
}

func newSigner(c *loop.Clients) (loop.Runner, error) {
	s := &signer{
		kube: c.Kube, now: c.Now, tokens: tokens(c),
		configMaps: loop.Informer(c, informer.For(c.Kube.CoreV1().ConfigMaps(infoNamespace)), loop.Selection{Fields: "metadata.name=" + infoName}),
	}
	return &loop.Loop{
		Name: signerName, Clients: c, Sync: s.sync,
		Watches: []loop.Watch{
			loop.Self(s.configMaps),
			loop.Mapped(s.tokens, func(*corev1.Secret) []loop.Key { return []loop.Key{{Namespace: infoNamespace, Name: infoName}} }),
		},
	}, nil
}

func (s *signer) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	info, ok := s.configMaps.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	text, ok := info.Data[kubeconfigKey]
	if !ok {
		return loop.Result{}, nil
	}
	wanted := maps.Clone(info.Data)
	maps.DeleteFunc(wanted, func(name, _ string) bool { return strings.HasPrefix(name, signaturePart) })
	var result loop.Result
	now := s.now()
	for token := range s.tokens.List() {
		id, secret, ok := signingToken(token, now)
		if !ok {
			continue
		}
		wanted[signaturePart+id] = sign(text, id, secret)
		if at, ends := expiry(token); ends && (result.After == 0 || at.Sub(now) < result.After) {
			result.After = at.Sub(now)
		}
	}
	if maps.Equal(wanted, info.Data) {
		return result, nil
	}
	return result, s.write(ctx, key, info, wanted)
}

func (s *signer) write(ctx context.Context, key loop.Key, info *corev1.ConfigMap, data map[string]string) error {
	changed := info.DeepCopy()
	changed.Data = data
	written, err := s.kube.CoreV1().ConfigMaps(infoNamespace).Update(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sign %s: %w", key, err)
	}
	loop.Wrote(ctx, s.configMaps, written.ResourceVersion)
	return nil
}
