//! Every way to sign in and to reach a server that the configuration promises, at real servers; what goes wrong is said with key
//! and remedy, and no secret is shown.

mod certificates;
mod changed_secrets;
mod contexts;
mod credentials;
mod domains;
mod inboxes;
mod jwts;
mod passwords;
mod rotated_certificates;
mod server_lists;
mod tls;
mod tls_refused;
mod tools;
mod way;

use self::certificates::{Authority, Pair};
use self::jwts::{Account, Operator, User};
use self::way::Way;
