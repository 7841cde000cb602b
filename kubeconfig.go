package millrace

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/server/pki"
)

// Kubeconfig returns a kubeconfig for the cluster's administrator. Its certificate is valid for a year. After eleven months a new
// one is made.
func (c *Cluster) Kubeconfig() []byte {
	return encodeKubeconfig(c.URL(), c.authorities(), "admin", c.certificates.keys.Keys().Admin)
}

// UserKubeconfig returns a kubeconfig for a user with groups. Its certificate is signed by the CA in a directory of keys.
func UserKubeconfig(keys, server, user string, groups []string, life time.Duration) ([]byte, error) {
	authority, err := pki.ReadAuthority(keys)
	if err != nil {
		return nil, err
	}
	pair, err := pki.IssueClient(&authority, user, groups, time.Now(), life)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %s: %w", user, err)
	}
	return encodeKubeconfig(server, authority.CertPEM, user, pair), nil
}

func encodeKubeconfig(server string, authorities []byte, user string, pair pki.Pair) []byte {
	config := clientcmdapi.NewConfig()
	config.Clusters["millrace"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authorities}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	config.Contexts["millrace"] = &clientcmdapi.Context{Cluster: "millrace", AuthInfo: user}
	config.CurrentContext = "millrace"
	b, err := clientcmd.Write(*config)
	if err != nil {
		panic(fmt.Sprintf("millrace: a kubeconfig cannot be encoded: %v", err))
	}
	return b
}

// WriteKubeconfig writes the kubeconfig to a file that only its owner can read.
func (c *Cluster) WriteKubeconfig(path string) error {
	if err := durable.WriteFile(path, c.Kubeconfig(), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
