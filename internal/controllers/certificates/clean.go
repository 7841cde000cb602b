package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

const (
	keepDecided   = time.Hour      // issued, denied or failed
	keepUndecided = 24 * time.Hour // not decided or not signed
)

// Cleaner deletes requests that are finished, or too old.
var Cleaner = loop.Entry{
	Name: cleanerName, Aliases: []string{"csrcleaner"},
	New: func(c *loop.Clients) (loop.Runner, error) {
		r := newRequests(c)
		return r.loop(c, cleanerName, r.clean), nil
	},
}

func (r *requests) clean(ctx context.Context, key loop.Key, found *request) (loop.Result, error) {
	due, has := end(found)
	if !has {
		return loop.Result{}, nil
	}
	if left := due.Sub(r.now()); left >= 0 {
		return loop.Result{After: left + time.Millisecond}, nil
	}
	err := r.kube.CertificatesV1().CertificateSigningRequests().Delete(ctx, found.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err):
		return loop.Result{}, nil
	case apierrors.IsConflict(err):
		return loop.Result{}, loop.ErrBehind
	case err != nil:
		return loop.Result{}, fmt.Errorf("delete the request %s: %w", found.Name, err)
	}
	loop.Removed(ctx, r.cache, found)
	return loop.Result{}, nil
}

// end returns when a request may be deleted, if ever.
func end(r *request) (at time.Time, has bool) {
	sooner := func(since metav1.Time, d time.Duration) {
		if t := since.Add(d); !since.IsZero() && (!has || t.Before(at)) {
			at, has = t, true
		}
	}
	issued := len(r.Status.Certificate) > 0
	if len(r.Status.Conditions) == 0 {
		sooner(r.CreationTimestamp, keepUndecided)
	}
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			sooner(c.LastUpdateTime, keepDecided)
		case certificatesv1.CertificateApproved:
			if !issued {
				sooner(c.LastUpdateTime, keepUndecided)
				continue
			}
			sooner(c.LastUpdateTime, keepDecided)
			sooner(expires(r.Status.Certificate), 0)
		}
	}
	return at, has
}

// expires returns the end of a certificate's validity, or zero if it cannot be parsed.
func expires(text []byte) metav1.Time {
	block, _ := pem.Decode(text)
	if block == nil {
		return metav1.Time{}
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return metav1.Time{}
	}
	return metav1.NewTime(c.NotAfter)
}
