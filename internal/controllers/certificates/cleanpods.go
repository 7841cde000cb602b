package certificates

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// keepPodRequest is how long a request for a pod's certificate stays: kubelets and signers need less.
const keepPodRequest = 15 * time.Minute

type podRequest = certificatesv1.PodCertificateRequest

// PodCleaner deletes the requests for certificates of pods that are old, whatever has become of them.
var PodCleaner = loop.Entry{
	Name: podCleanerName,
	New: func(c *loop.Clients) (loop.Runner, error) {
		p := &podCleaner{clients: c, cache: loop.Informer(c, informer.For(c.Kube.CertificatesV1().PodCertificateRequests("")))}
		return &loop.Loop{Name: podCleanerName, Clients: c, Workers: workers, Sync: p.sync, Watches: []loop.Watch{loop.Self(p.cache)}}, nil
	},
}

type podCleaner struct {
	clients *loop.Clients
	cache   *informer.Shared[*podRequest]
}

func (p *podCleaner) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	found, ok := p.cache.Lookup(key)
	if !ok || found.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	if left := keepPodRequest - p.clients.Now().Sub(found.CreationTimestamp.Time); left > 0 {
		return loop.Result{After: left}, nil
	}
	err := p.clients.Kube.CertificatesV1().PodCertificateRequests(found.Namespace).Delete(ctx, found.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &found.UID},
	})
	switch {
	case apierrors.IsNotFound(err):
		return loop.Result{}, nil
	case apierrors.IsConflict(err):
		return loop.Result{}, loop.ErrBehind // there is another one of that name
	case err != nil:
		return loop.Result{}, fmt.Errorf("delete the request %s: %w", key, err)
	}
	loop.Removed(ctx, p.cache, found)
	return loop.Result{}, nil
}
