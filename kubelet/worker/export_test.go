package worker

// Probes is how many probes are remembered.
func (c *Crew) Probes() int {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	return len(c.probe.tally)
}
