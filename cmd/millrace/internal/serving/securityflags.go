package serving

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
)

// auditFlags configure audit logging and encryption at rest, under kube-apiserver's names.
type auditFlags struct {
	audit      millrace.AuditOptions
	encryption millrace.EncryptionOptions
}

func (f *auditFlags) add(fl *pflag.FlagSet) {
	a, l, w := &f.audit, &f.audit.Log, &f.audit.Webhook
	fl.StringVar(&a.PolicyFile, "audit-policy-file", "", "audit policy: a Policy of audit.k8s.io/v1")
	fl.StringVar(&l.Path, "audit-log-path", "", `file for audit events; "-" is standard output`)
	fl.IntVar(&l.MaxAge, "audit-log-maxage", 0, "maximum age of old audit logs in days; 0 means no limit")
	fl.IntVar(&l.MaxBackups, "audit-log-maxbackup", 0, "maximum number of old audit logs; 0 means no limit")
	fl.IntVar(&l.MaxSize, "audit-log-maxsize", 100, "maximum size of an audit log in MB before it is rotated")
	fl.StringVar(&l.Format, "audit-log-format", "json", "json or legacy")
	fl.StringVar(&l.Mode, "audit-log-mode", "blocking", "blocking, blocking-strict or batch")
	fl.IntVar(&l.Batch.BufferSize, "audit-log-batch-buffer-size", 10000, "buffer size of the mode batch, in events")
	fl.IntVar(&l.Batch.MaxSize, "audit-log-batch-max-size", 1, "has no effect: what waits is written to the file together")
	fl.DurationVar(&l.Batch.MaxWait, "audit-log-batch-max-wait", 0, "maximum time before a batch is written; 0 is 0.1 s")
	fl.StringVar(&w.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a webhook that receives audit events")
	fl.StringVar(&w.Mode, "audit-webhook-mode", "batch", "batch, blocking or blocking-strict")
	fl.IntVar(&w.Batch.BufferSize, "audit-webhook-batch-buffer-size", 10000, "buffer size of the mode batch, in events")
	fl.IntVar(&w.Batch.MaxSize, "audit-webhook-batch-max-size", 400, "maximum number of events in a batch")
	fl.DurationVar(&w.Batch.MaxWait, "audit-webhook-batch-max-wait", 30*time.Second, "maximum time before a batch is sent")
	fl.BoolVar(&w.Batch.Throttle, "audit-webhook-batch-throttle-enable", true, "limit the rate of batches")
	fl.Float64Var(&w.Batch.QPS, "audit-webhook-batch-throttle-qps", 10, "maximum number of batches per second")
	fl.IntVar(&w.Batch.Burst, "audit-webhook-batch-throttle-burst", 15, "how many batches may be sent at once")
	fl.DurationVar(&w.InitialBackoff, "audit-webhook-initial-backoff", 10*time.Second, "how long to wait before the first retry")
	fl.StringVar(&f.encryption.File, "encryption-provider-config", "", "encryption at rest: an EncryptionConfiguration of apiserver.config.k8s.io/v1")
	fl.BoolVar(&f.encryption.Reload, "encryption-provider-config-automatic-reload", false, "reload that file when it changes")
}

// files returns the files that the flags name.
func (f *auditFlags) files() map[string]string {
	return map[string]string{"audit-policy-file": f.audit.PolicyFile, "audit-webhook-config-file": f.audit.Webhook.ConfigFile,
		"encryption-provider-config": f.encryption.File}
}
