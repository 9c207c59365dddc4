//! How a key is used, in the languages of clients.

/// An example of code.
#[derive(Clone, Debug)]
pub(super) struct Snippet {
    pub(super) name: &'static str,
    pub(super) code: String,
}

/// Examples for a key at this URL of the public listener, such as `http://127.0.0.1:8545`. Both are
/// written as they are: a key has no characters that a language would read in another way.
pub(super) fn snippets(url: &str, key: &str) -> Vec<Snippet> {
    let ws = match url.split_once("://") {
        Some(("https", host)) => format!("wss://{host}"),
        Some((_, host)) => format!("ws://{host}"),
        None => url.to_owned(),
    };
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;
    let codes = [
        (
            "curl",
            format!(
                "curl -s {url}/v3/{key} \\\n  -H 'content-type: application/json' \\\n  -d '{call}'"
            ),
        ),
        (
            "ethers",
            format!(
                "import {{ JsonRpcProvider, WebSocketProvider }} from \"ethers\";\n\n\
                 const provider = new JsonRpcProvider(\"{url}/v3/{key}\");\n\
                 console.log(await provider.getBlockNumber());\n\n\
                 const live = new WebSocketProvider(\"{ws}/ws/v3/{key}\");\n\
                 live.on(\"block\", (number) => console.log(number));"
            ),
        ),
        (
            "viem",
            format!(
                "import {{ createPublicClient, http, webSocket }} from \"viem\";\n\n\
                 const client = createPublicClient({{ transport: http(\"{url}/v3/{key}\") }});\n\
                 console.log(await client.getBlockNumber());\n\n\
                 const live = createPublicClient({{ transport: webSocket(\"{ws}/ws/v3/{key}\") }});\n\
                 live.watchBlocks({{ onBlock: (block) => console.log(block.number) }});"
            ),
        ),
        (
            "web3.py",
            format!(
                "from web3 import Web3\n\n\
                 w3 = Web3(Web3.HTTPProvider(\"{url}/v3/{key}\"))\n\
                 print(w3.eth.block_number)"
            ),
        ),
    ];
    codes
        .into_iter()
        .map(|(name, code)| Snippet { name, code })
        .collect()
}
