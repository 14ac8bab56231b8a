package journal

import "signalbox/internal/coord"

// keptCertificates bounds the certificates that are kept: each is good for two
// hours, the older ones are history.
const keptCertificates = 50

// Certificates gives the kept certificates, newest first.
func (v *View) Certificates() ([]coord.Certificate, error) {
	return list[coord.Certificate](v, `SELECT doc FROM certificates ORDER BY id DESC LIMIT $1`, keptCertificates)
}

// AddCertificate stores a certificate and gives it its id and its time.
func (tx *Tx) AddCertificate(c coord.Certificate, by coord.Actor) (coord.Certificate, error) {
	c.ID, c.Issued = coord.CertificateID(tx.newID(coord.CertificatePrefix)), tx.Now()
	doc, err := encode(tx, c)
	if err != nil {
		return c, err
	}
	if err := tx.put(`INSERT INTO certificates (id, doc) VALUES ($1, $2)`, c.ID, doc); err != nil {
		return c, err
	}
	if err := tx.put(`DELETE FROM certificates WHERE id NOT IN (SELECT id FROM certificates ORDER BY id DESC LIMIT $1)`, keptCertificates); err != nil {
		return c, err
	}
	return c, tx.Tell(coord.Event{Kind: coord.CertificateSet, By: &by}, struct {
		ID    coord.CertificateID `json:"id"`
		Tier  coord.Tier          `json:"tier"`
		Fails []string            `json:"fails,omitempty"`
	}{c.ID, c.Facts.Tier, c.Fails()})
}
