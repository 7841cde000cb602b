package millrace

import (
	"fmt"
	"os"

	"github.com/millrace/millrace/server/audit"
)

// AuditOptions say what is written down of requests. Without a policy nothing is.
type AuditOptions struct {
	// PolicyFile is a Policy of audit.k8s.io/v1.
	PolicyFile string
	Log        audit.FileOptions
	Webhook    audit.WebhookOptions
}

// openAudit opens the audit log, if there is one.
func (c *Cluster) openAudit() (*audit.Log, error) {
	o := c.options.Audit
	if o.PolicyFile == "" || o.Log.Path == "" && o.Webhook.ConfigFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: failed to read file path %q: %w", o.PolicyFile, err)
	}
	policy, err := audit.ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: %w: from file %s", err, o.PolicyFile)
	}
	log, err := audit.Open(audit.Options{Policy: policy, File: o.Log, Webhook: o.Webhook, Logger: c.options.Logger})
	if err != nil {
		return nil, err
	}
	c.opened("audit log", log.Close)
	c.run("audit", log.Run)
	return log, nil
}
