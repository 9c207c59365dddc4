//! What the program prints once it serves.

use nearhead::{
    Service,
    access::MethodSet,
    config::{ApiKey, Config, SourceKind},
};
use nearhead_actors::upstream::FollowedChain;

/// The lines that a user needs first. A configured secret is not printed: the command to try
/// prompts for it.
pub(crate) fn greeting(service: &Service, config: &Config) -> String {
    let source = match config.source {
        SourceKind::Dev => format!("dev, seed {}", config.seed),
        SourceKind::Files => "files".to_owned(),
        SourceKind::Node => {
            let nodes: Vec<String> = config.nodes.iter().map(ToString::to_string).collect();
            match nodes.is_empty() {
                true => "node, a fleet's entries alone".to_owned(),
                false => format!("node, {}", nodes.join(", ")),
            }
        }
    };
    let followed = service.followed_chain().map_or_else(String::new, followed);
    // A chain that is followed says so itself.
    let data = service.data().filter(|_| followed.is_empty());
    let data = data.map_or_else(String::new, |data| format!("data    {}\n", data.display()));
    let (number, hash) = match service.head().load() {
        Some(snapshot) => (snapshot.head().number(), snapshot.head().hash.to_string()),
        None => (0, String::new()),
    };
    let has_dev_key = config.api_keys.iter().any(ApiKey::is_default);
    let (prompt, key) = if has_dev_key {
        ("", "dev")
    } else {
        ("printf 'key: '; read -r KEY; ", "$KEY")
    };
    let (method, params) = match config.methods {
        MethodSet::Companion | MethodSet::Forwarded => ("eth_blockNumber", String::new()),
        MethodSet::Core => ("eth_getBlockByHash", format!("\"{hash}\",false")),
    };
    let url = service.url();
    // The certificate is for a name, not for the address of a listener.
    let named = config.public_url.as_deref();
    let named = named.filter(|_| config.tls_cert.is_some());
    let tried = named.unwrap_or(&url);
    let admin = service.admin_url().map(|url| format!("admin   {url}\n"));
    let metrics = service
        .metrics_url()
        .map(|url| format!("metrics {url}/metrics\n"));
    // Whoever has the link makes the first account, so it is printed and never logged.
    let first = service
        .first_account_url()
        .map(|url| format!("first   {url}\n"));
    let keys = (!service.has_keys()).then(|| no_keys(service.admin_url().as_deref()));
    let operators = [admin, first, metrics, keys]
        .map(Option::unwrap_or_default)
        .concat();
    format!(
        "nearhead {version}\n\
         source  {source}\n\
         {followed}{data}\
         head    {number} {hash}\n\
         url     {url}/v3/<API_KEY>\n\
         {operators}\
         try     {prompt}curl -s {tried}/v3/{key} -H 'content-type: application/json' \
         -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[{params}]}}'\n",
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// The line of a service that lets nobody in yet.
fn no_keys(admin_url: Option<&str>) -> String {
    let remedy = match admin_url {
        Some(url) => format!("make one at {url} or by `nearhead key create`, or give --api-key"),
        None => "give --api-key, or --admin-listen to make one there".to_owned(),
    };
    format!("keys    none yet, so nobody is let in: {remedy}\n")
}

/// The lines about the chain that is followed, and about what has to be trusted.
fn followed(chain: &FollowedChain) -> String {
    let name = match (chain.network, chain.genesis) {
        (Some(network), _) => network.to_string(),
        (None, Some(genesis)) => format!("genesis {genesis}"),
        (None, None) => "genesis not known".to_owned(),
    };
    let rules = match chain.has_header_rules {
        true => "",
        false => {
            "rules   off: headers are not checked against the rules of their fork (--header-rules)\n"
        }
    };
    let data = match &chain.data {
        Some(folder) => folder.display().to_string(),
        None => "in memory: a restart forgets which block is finalized (--data-dir)".to_owned(),
    };
    format!(
        "chain   {}, {name}\n\
         quorum  {}\n\
         {rules}\
         data    {data}\n",
        chain.chain_id,
        quorum(chain.quorum, chain.nodes),
    )
}

/// How many nodes have to agree, and what that costs if it is not a usual choice.
fn quorum(quorum: usize, nodes: usize) -> String {
    if nodes == 0 {
        return "that of the fleet's leader".to_owned();
    }
    let costs = match (quorum, nodes) {
        (_, 1) => "",
        (2, 2) => ": the silence of either node stops the head: give a third --node, or --quorum 1",
        _ if quorum == nodes => ": the silence of any node stops the head",
        (1, _) => ": one node alone can get an invented block served",
        _ if quorum <= nodes / 2 => {
            ": half of the nodes, or fewer, can get an invented block served"
        }
        _ => "",
    };
    let plural = if nodes == 1 { "" } else { "s" };
    format!("{quorum} of {nodes} node{plural}{costs}")
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;
    use nearhead_chain::network::Network;

    use super::*;

    #[test]
    fn a_quorum_says_what_it_costs() {
        for (of, expected) in [
            ((1, 0), "that of the fleet's leader"),
            ((1, 1), "1 of 1 node"),
            (
                (2, 2),
                "2 of 2 nodes: the silence of either node stops the head: give a third --node, or --quorum 1",
            ),
            (
                (1, 2),
                "1 of 2 nodes: one node alone can get an invented block served",
            ),
            (
                (1, 3),
                "1 of 3 nodes: one node alone can get an invented block served",
            ),
            ((2, 3), "2 of 3 nodes"),
            (
                (3, 3),
                "3 of 3 nodes: the silence of any node stops the head",
            ),
            (
                (2, 4),
                "2 of 4 nodes: half of the nodes, or fewer, can get an invented block served",
            ),
            ((3, 4), "3 of 4 nodes"),
        ] {
            assert_eq!(quorum(of.0, of.1), expected);
        }
    }

    #[test]
    fn a_service_without_keys_says_where_to_make_one() {
        for (admin, expected) in [
            (
                Some("http://127.0.0.1:8590"),
                "keys    none yet, so nobody is let in: make one at http://127.0.0.1:8590 or by \
                 `nearhead key create`, or give --api-key\n",
            ),
            (
                None,
                "keys    none yet, so nobody is let in: give --api-key, or --admin-listen to make one there\n",
            ),
        ] {
            assert_eq!(no_keys(admin), expected);
        }
    }

    #[test]
    fn the_chain_is_named_and_what_is_not_checked() {
        let genesis = B256::repeat_byte(0xab);
        let known = FollowedChain {
            chain_id: 1,
            genesis: Some(genesis),
            network: Some(Network::Mainnet),
            nodes: 3,
            quorum: 2,
            has_header_rules: true,
            data: Some("/data/1-abababab".into()),
        };
        let expected = "chain   1, mainnet\nquorum  2 of 3 nodes\ndata    /data/1-abababab\n";
        assert_eq!(followed(&known), expected);
        let unknown = FollowedChain {
            network: None,
            has_header_rules: false,
            data: None,
            ..known
        };
        let lines = [
            format!("chain   1, genesis {genesis}"),
            "quorum  2 of 3 nodes".to_owned(),
            "rules   off: headers are not checked against the rules of their fork (--header-rules)"
                .to_owned(),
            "data    in memory: a restart forgets which block is finalized (--data-dir)".to_owned(),
        ];
        assert_eq!(followed(&unknown), lines.join("\n") + "\n");
        let pruned = FollowedChain {
            genesis: None,
            ..unknown
        };
        assert!(followed(&pruned).starts_with("chain   1, genesis not known\n"));
    }
}
