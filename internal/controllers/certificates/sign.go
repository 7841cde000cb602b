package certificates

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

// signers are Kubernetes' own signers, with the checks of their requests.
var signers = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName:        client,
	certificatesv1.KubeAPIServerClientKubeletSignerName: kubeletClient,
	certificatesv1.KubeletServingSignerName:             kubeletServing,
	certificatesv1beta1.LegacyUnknownSignerName:         anything,
}

const (
	// backdate is for clients whose clocks are a little behind.
	backdate = 5 * time.Minute
	// short is the validity from which on backdating also moves the end.
	short    = 8 * time.Hour
	shortest = 10 * time.Minute
	year     = 365 * 24 * time.Hour
)

// Signing configures who signs certificates, and for how long. The zero value signs nothing.
type Signing struct {
	// Authority returns the CA of all of Kubernetes' own signers. It is called for each certificate, so the CA may
	// change.
	Authority func() (Authority, error)
	// Others has the CAs of single signers, by name. If it is set, Authority is not used.
	Others map[string]func() (Authority, error)
	// Duration is the longest validity of a certificate: a year by default.
	Duration time.Duration
}

// Entry registers the loop. Without any CA it does not run.
func (s Signing) Entry() loop.Entry {
	return loop.Entry{
		Name: signingName, Aliases: []string{"csrsigning"},
		New: func(c *loop.Clients) (loop.Runner, error) {
			if s.Authority == nil && len(s.Others) == 0 {
				return nil, nil
			}
			s.Duration = cmp.Or(s.Duration, year)
			r := newRequests(c)
			return r.loop(c, signingName, func(ctx context.Context, key loop.Key, found *request) (loop.Result, error) {
				return loop.Result{}, s.sync(ctx, r, key, found)
			}), nil
		},
	}
}

func (s Signing) authority(signer string) func() (Authority, error) {
	if len(s.Others) > 0 {
		return s.Others[signer]
	}
	return s.Authority
}

func (s Signing) sync(ctx context.Context, r *requests, key loop.Key, found *request) error {
	refuses, ours := signers[found.Spec.SignerName]
	authority := s.authority(found.Spec.SignerName)
	if !ours || authority == nil || len(found.Status.Certificate) > 0 ||
		condition(found, certificatesv1.CertificateApproved) == nil || condition(found, certificatesv1.CertificateFailed) != nil {
		return nil
	}
	wanted, err := parse(found)
	if err != nil {
		return loop.Terminal(fmt.Errorf("parse the request %s: %w", found.Name, err))
	}
	changed := found.DeepCopy()
	if err := refuses(wanted, found.Spec.Usages); err != nil {
		changed.Status.Conditions = append(changed.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: err.Error(), LastUpdateTime: metav1.NewTime(r.now()),
		})
	} else if changed.Status.Certificate, err = s.sign(authority, wanted, found, r.now()); err != nil {
		return fmt.Errorf("sign the certificate %s: %w", found.Name, err)
	}
	written, err := r.kube.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write the certificate %s: %w", found.Name, err)
	}
	loop.Wrote(ctx, r.cache, written.ResourceVersion)
	return nil
}

// life returns the validity of a certificate.
func (s Signing) life(asked *int32) time.Duration {
	if asked == nil {
		return s.Duration
	}
	return min(max(time.Duration(*asked)*time.Second, shortest), s.Duration)
}

func (s Signing) sign(from func() (Authority, error), wanted *x509.CertificateRequest, found *request, now time.Time) ([]byte, error) {
	authority, err := from()
	if err != nil {
		return nil, err
	}
	if err := wanted.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	template, err := fill(wanted, found.Spec.Usages)
	if err != nil {
		return nil, err
	}
	if err := limit(template, s.life(found.Spec.ExpirationSeconds), authority.Certificate.NotAfter, now); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Certificate, wanted.PublicKey, authority.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// fill makes a certificate template from a request, without the request's extensions.
func fill(wanted *x509.CertificateRequest, usages []certificatesv1.KeyUsage) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	usage, extended, err := keyUsages(usages)
	return &x509.Certificate{
		SerialNumber: serial, Subject: wanted.Subject, DNSNames: wanted.DNSNames, IPAddresses: wanted.IPAddresses,
		EmailAddresses: wanted.EmailAddresses, URIs: wanted.URIs, PublicKeyAlgorithm: wanted.PublicKeyAlgorithm, PublicKey: wanted.PublicKey,
		KeyUsage: usage, ExtKeyUsage: extended, BasicConstraintsValid: true,
	}, err
}

// limit sets the validity: never longer than the CA's.
func limit(c *x509.Certificate, life time.Duration, end, now time.Time) error {
	c.NotBefore, c.NotAfter = now.Add(-backdate), now.Add(life)
	if life >= short {
		c.NotAfter = c.NotAfter.Add(-backdate)
	}
	if c.NotAfter.After(end) {
		c.NotAfter = end
	}
	switch {
	case !c.NotBefore.Before(end):
		return fmt.Errorf("the signer has expired: NotAfter=%v", end)
	case !now.Before(end):
		return fmt.Errorf("refusing to sign a certificate that expired in the past: NotAfter=%v", end)
	}
	return nil
}

// keyUsages converts usages to those of certificates, in order.
func keyUsages(all []certificatesv1.KeyUsage) (usage x509.KeyUsage, extended []x509.ExtKeyUsage, err error) {
	var unknown []certificatesv1.KeyUsage
	for _, u := range all {
		if bit, ok := plainUsages[u]; ok {
			usage |= bit
		} else if e, ok := extendedUsages[u]; !ok {
			unknown = append(unknown, u)
		} else if !slices.Contains(extended, e) {
			extended = append(extended, e)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	slices.Sort(extended)
	return usage, extended, nil
}

var plainUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var extendedUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

// ErrNoKey means that a CA has no usable key.
var ErrNoKey = errors.New("the authority has no key that signs")
